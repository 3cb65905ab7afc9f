"""The doctor: what is fine, what is in the way and what to do; mistakes in its command."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.errors import UserError
from harness.launch import doctor
from harness.launch.findings import Finding, problems, render
from harness.store import RunStore


def configured(*overrides: str):
    return doctor._composed(list(overrides))


def by_subject(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.subject: finding for finding in findings}


def test_a_pocket_run_on_the_local_engine_has_nothing_in_its_way():
    findings = doctor.examine(configured())
    assert problems(findings) == []
    assert {"disk", "data"} <= by_subject(findings).keys()


def test_missing_data_and_gpus_are_problems_with_remedies(tmp_path, monkeypatch):
    monkeypatch.setenv("DARA_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    found = by_subject(doctor.examine(configured("scale=paper", "model=qwen2.5-1.5b")))
    assert found["data"].level == "problem"
    assert "python -m harness data fetch rlla_4k" in found["data"].remedy
    assert found["GPUs"].level == "problem"
    assert "engine.device=cpu" in found["GPUs"].remedy


def test_settings_that_cannot_be_are_the_only_finding_of_the_engine(tmp_path, monkeypatch):
    monkeypatch.setenv("DARA_CACHE", str(tmp_path))
    found = by_subject(doctor.examine(configured("scale=paper", "engine.gpus_per_node=3")))
    assert "do not divide among 3 workers" in found["settings"].text
    assert "GPUs" not in found


def test_several_nodes_need_a_ray_cluster(monkeypatch):
    from harness.engines.verl import preflight

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    config = configured("scale=paper", "engine.nodes=2")
    assert preflight._ray(config).level == "problem"
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9")
    assert "does not answer" in preflight._ray(config).text


def test_a_launcher_gets_all_that_is_in_the_way_in_one_error(tmp_path, monkeypatch):
    monkeypatch.setenv("DARA_CACHE", str(tmp_path))
    with pytest.raises(UserError, match=r"the run cannot start: data: .*data fetch rlla_4k.*settings: "):
        doctor.require(configured("scale=paper", "engine.gpus_per_node=3"))


def test_a_stored_run_is_found_by_folder_and_by_id(tmp_path):
    run = RunStore(tmp_path).create(configured("method=gdpo"))
    by_folder = doctor._wanted([f"run={run.path}"])
    by_id = doctor._wanted([f"run={run.run_id}", f"runs={tmp_path}"])
    assert by_folder == by_id == (run.config, run.path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["bfcp"], r"no topic 'bfcp'.*did you mean 'bfcl'"),
        (["run=nowhere", "runs=/nonexistent"], "has no run 'nowhere'"),
        (["run=x", "method=gdpo"], "method= cannot stand beside run="),
        (["scale=papre"], "scale=papre does not exist"),
    ],
)
def test_mistakes_are_one_line(words, message):
    arguments = [sys.executable, "-m", "harness", "doctor", *words]
    result = subprocess.run(arguments, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False)
    assert result.returncode == 2
    assert len(result.stderr.strip().splitlines()) == 1
    assert re.search(message, result.stderr)


def test_findings_are_shown_one_a_line_with_the_remedy_below():
    text = render([Finding("ok", "disk", "fine"), Finding("problem", "GPUs", "none", "get some")])
    assert text.splitlines() == ["ok       disk  fine", "problem  GPUs  none", "               -> get some"]
