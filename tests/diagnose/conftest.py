import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from diagnose_logs import harness  # noqa: F401
