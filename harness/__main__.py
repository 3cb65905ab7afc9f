"""``python -m harness COMMAND``."""

import sys

from harness.cli import main

sys.exit(main())
