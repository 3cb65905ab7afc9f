"""The page: complete without runs, honest with odd ones, safe against what stands in files, usable in a browser."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from figures.__main__ import main as figures
from harness.analysis import analyse_command
from harness.analysis.collect import REFERENCE, collect, write
from harness.errors import UserError
from harness.report.page import render
from paper_tables.__main__ import main as tables

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
QUIET = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    """What the pipeline leaves with published data alone: two tables, two figures, verdicts."""
    folder = tmp_path_factory.mktemp("results")
    collected = collect(folder / "no-runs", REFERENCE)
    write(collected, folder)
    for name in ("table01_bfcl", "table08_group_size"):
        tables([name, "--results", str(folder)])
    for name in ("fig01_format_density", "fig_weights"):
        figures([name, "--results", str(folder)])
    (folder / "plan.json").write_text(
        json.dumps(
            {"pocket": {"scale": "pocket", "runs": ["one", "two"]}, "big": {"scale": "paper", "runs": ["three"]}}
        )
    )
    parser = argparse.ArgumentParser()
    analyse_command.configure(parser)
    analyse_command.main(parser.parse_args(["--results", str(folder)]))
    return folder


@pytest.fixture(scope="module")
def page(results) -> str:
    return render(results)


def test_the_page_has_every_part_without_a_single_run(page):
    for part in ("matrix", "claims", "figures", "tables", "diagnosis", "runs", "findings", "deviations", "cite"):
        assert f'<section id="{part}">' in page
    assert "None yet." in page
    assert "51.17" in page


def test_missing_runs_come_with_the_command_that_makes_them(page):
    assert "python harness/run.py -m study=pocket</code>" in page
    assert "python harness/run.py -m study=big hydra/launcher=slurm</code>" in page


def test_the_page_needs_no_network(page):
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "default-src 'none'" in page


def test_size(page):
    assert len(page.encode()) < 5_000_000


def test_text_from_files_is_escaped(results, tmp_path):
    copy = tmp_path / "results"
    shutil.copytree(results, copy)
    path = copy / "tables" / "table01_bfcl.json"
    table = json.loads(path.read_text())
    table["rows"][0]["label"] = "<script>alert(1)</script>"
    path.write_text(json.dumps(table))
    assert "<script>alert(1)" not in render(copy)
    assert "&lt;script&gt;alert(1)" in render(copy)


def test_a_damaged_table_is_named(results, tmp_path):
    copy = tmp_path / "results"
    shutil.copytree(results, copy)
    (copy / "tables" / "table01_bfcl.json").write_text("{")
    with pytest.raises(UserError, match=r"table01_bfcl\.json"):
        render(copy)


def test_no_results_is_one_line(tmp_path):
    with pytest.raises(UserError, match="collect"):
        render(tmp_path)


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
@pytest.mark.parametrize("size", ["1280,900", "390,844"])
def test_the_page_opens_in_a_browser_and_fits(page, tmp_path, size):
    """The document that the browser built has all figures decoded, and nothing is wider than the window."""
    probe = (
        "<script>addEventListener('load', () => { document.title = JSON.stringify({"
        "wide: document.documentElement.scrollWidth - innerWidth,"
        "broken: [...document.images].filter((image) => { image.loading = 'eager';"
        " return image.complete && !image.naturalWidth; }).length, images: document.images.length,"
        "focusable: document.querySelectorAll('td[tabindex]').length}); });</script></body>"
    )
    path = tmp_path / "index.html"
    path.write_text(page.replace("</body>", probe), encoding="utf-8")
    command = [str(CHROMIUM), *QUIET, f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={size}", "--dump-dom"]
    dom = subprocess.run([*command, path.as_uri()], capture_output=True, text=True, timeout=120, check=True).stdout
    found = json.loads(dom.split("<title>")[1].split("</title>")[0].replace("&quot;", '"'))
    assert found["wide"] <= 0
    assert found["broken"] == 0
    assert found["images"] == 2
    assert found["focusable"] > 50
