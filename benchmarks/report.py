"""From results to the page, and the page in a browser.

``python benchmarks/report.py [--results results] [--dvc]``: tables, figures and the page from collected results, each
by its own command; size of the page and its load event in headless Chromium (median of five, a new profile for the
first). ``--dvc``: in a checkout whose pipeline is up to date, also ``dvc repro`` with nothing to do, and with those
stages made again. Prints figures and their targets, asserts nothing.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STAGES = ("tables", "settings", "figures", "theory", "report")


def seconds(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def shown(what: str, value: float, target: str, unit: str = "s") -> None:
    print(f"{what:<46} {value:8.2f} {unit:<3} {target}", flush=True)


def from_results(results: Path, folder: Path) -> Path:
    """The time of each command; returns the page."""
    copy = folder / "results"
    shutil.copytree(results, copy, ignore=shutil.ignore_patterns("tables", "figures", "report"))
    python = [sys.executable, "-m"]
    parts = {
        "tables": seconds([*python, "paper_tables", "--results", str(copy)]),
        "figures": seconds([*python, "figures", "--results", str(copy)]),
        "page": seconds([*python, "harness", "report", "--results", str(copy)]),
    }
    for name, value in parts.items():
        shown(name, value, "")
    shown("tables, figures and page, three commands", sum(parts.values()), "at most 60")
    return copy / "report" / "index.html"


def in_browser(page: Path, folder: Path) -> None:
    sys.path.insert(0, str(ROOT / "tests" / "report"))
    from chromium import EXECUTABLE, Chromium

    shown("size of the page", page.stat().st_size / 1e6, "at most 5", "MB")
    if EXECUTABLE is None:
        print("no Chromium: the load event was not measured")
        return
    loads = []
    with Chromium(folder / "profile") as browser:
        for _ in range(5):
            browser.open(page)
            loads.append(browser.value("performance.getEntriesByType('navigation')[0].loadEventEnd") / 1000)
    shown("load event, first", loads[0], "at most 1")
    shown("load event, median of five", statistics.median(loads), "at most 1")


def with_dvc() -> None:
    shown("dvc --version (dvc's own start)", seconds(["dvc", "--version"]), "")
    shown("dvc repro, nothing to do", seconds(["dvc", "repro"]), "at most 6")
    listed = subprocess.run(["dvc", "stage", "list", "--name-only"], check=True, capture_output=True, text=True).stdout
    stages = [name for name in listed.split() if name.partition("@")[0] in STAGES]
    shown(f"dvc repro of {len(stages)} stages, results to page", seconds(["dvc", "repro", "-f", "-s", *stages]), "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("results"), help="collected tables (%(default)s)")
    parser.add_argument("--dvc", action="store_true", help="also time dvc repro in this checkout")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        in_browser(from_results(args.results, Path(folder)), Path(folder))
    if args.dvc:
        with_dvc()


if __name__ == "__main__":
    main()
