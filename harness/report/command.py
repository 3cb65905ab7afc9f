"""Build results/report/index.html: one static page with the state of the matrix, verdicts, tables and figures.

The page needs no server and no network. It reads what collect, analyse, the tables and the figures left in results/.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from harness.report.page import render
from harness.store.files import make_folder, write_atomically


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder to read (default: %(default)s)")
    parser.add_argument("--output", type=Path, help="the page (default: <results>/report/index.html)")


def main(args: argparse.Namespace) -> int:
    output = args.output or args.results / "report" / "index.html"
    page = render(args.results).encode()
    make_folder(output.parent)
    write_atomically(output, page)
    print(f"{output} ({len(page) / 1e6:.1f} MB)")
    return 0
