"""A batch small enough to check by hand: every number of a step, the replay, and each finding."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from diagnose_logs import jsonl, rows

from harness.aggregation import aggregate
from harness.diagnose import report
from harness.diagnose.columns import Choice
from harness.diagnose.findings import findings
from harness.diagnose.reading import read_log
from harness.diagnose.report import Diagnosis, diagnose
from harness.errors import UserError


def diagnosed(path: Path, **options: object) -> Diagnosis:
    return diagnose(read_log([path], Choice()), **options)  # type: ignore[arg-type]


def log_of(path: Path, groups: list[list[dict[str, float]]], steps: int = 1) -> Path:
    records = [
        {"step": step, "uid": f"g{place}", **reward}
        for step in range(1, steps + 1)
        for place, group in enumerate(groups)
        for reward in group
    ]
    return jsonl(path, records)


def test_every_number_of_a_step(tmp_path: Path) -> None:
    found = diagnosed(jsonl(tmp_path / "1.jsonl", rows()))
    (step,) = found.steps
    assert (step.responses, step.groups, step.sizes, step.left_out) == (8, 3, (2, 4), 0)
    correctness, form = step.channels["correctness"], step.channels["format"]
    assert correctness.mean == 5 / 8
    assert form.mean == 6 / 8
    assert correctness.density == pytest.approx(2 / 3)
    assert form.density == pytest.approx(1 / 3)
    # Energy: G - 1 in each active group, so 1 + 3 for correctness and 3 for format.
    assert correctness.energy == pytest.approx(4, rel=1e-5)
    assert form.energy == pytest.approx(3, rel=1e-5)
    assert correctness.energy_share == pytest.approx(4 / 7, rel=1e-5)
    assert (correctness.all_low, correctness.all_high, correctness.same) == (0, pytest.approx(1 / 3), 0)
    assert (form.all_low, form.all_high) == (0, pytest.approx(2 / 3))
    # Own rates of correctness: 1/2 of 2 -> q = 1/2, 1 -> 0, 1/2 of 4 -> 1 - 2/16 = 7/8.
    assert correctness.success == pytest.approx(5 / 8)
    assert correctness.expected == pytest.approx((1 / 2 + 0 + 7 / 8) / 3)
    p = 5 / 8
    two, four = 1 - p**2 - (1 - p) ** 2, 1 - p**4 - (1 - p) ** 4
    assert correctness.alike == pytest.approx((two + two + four) / 3)
    assert form.weight == pytest.approx(math.sqrt(2))
    assert correctness.weight == 1
    assert not form.cap_hit
    # In group c the two channels contradict each other in all four responses, and their sum is always 1.
    assert step.conflict == 4 / 8
    assert step.opposed == {("correctness", "format"): 4 / 8}
    assert (step.hidden, step.dropped) == (1, 2)


def test_replay_by_hand(tmp_path: Path) -> None:
    found = diagnosed(jsonl(tmp_path / "1.jsonl", rows()))
    replays = {item.method.name: item for item in found.replays}
    # gdpo: A is +-0.71 in group a; in c the channels cancel: only a's first response is positive, by correctness.
    assert replays["gdpo"].mass_share == pytest.approx([1, 0])
    assert replays["gdpo"].with_base.correlation == pytest.approx(1)
    assert replays["gdpo"].flipped == replays["gdpo"].silenced == 0
    # dara_sym: format weighs sqrt(2), so the second and fourth of c are positive by format, equally in both.
    a, c = 1 / math.sqrt(2), math.sqrt(3) / 2
    scores = np.array(
        [a, -a, 0, 0, c - math.sqrt(2) * c, math.sqrt(2) * c - c, c - math.sqrt(2) * c, math.sqrt(2) * c - c]
    )
    assert scores.sum() == pytest.approx(0)
    positive = np.maximum(scores, 0)
    assert replays["dara_sym"].mass_share == pytest.approx(
        [positive[0] / positive.sum(), positive[4:].sum() / positive.sum()], rel=1e-4
    )
    gdpo = np.array([a, -a, 0, 0, 0, 0, 0, 0])
    assert replays["dara_sym"].with_base.correlation == pytest.approx(np.corrcoef(gdpo, scores)[0, 1], rel=1e-4)
    assert replays["dara_sym"].mean_weights == pytest.approx([1, math.sqrt(2)])
    # gd2po drops the four responses of c.
    assert replays["gd2po_hard"].silenced == 0
    for name in ("saw", "saw_grpo", "sa_mrpo"):
        assert replays[name].skipped == "needs --bounds for correctness, format"
    for name in ("static_sym", "static_asym"):
        assert "--weights" in replays[name].skipped


@pytest.mark.parametrize("method", ["grpo", "dara_asym", "gd2po_snr", "rvpo", "sa_mrpo", "mo_grpo"])
def test_replay_is_the_method_on_the_step(tmp_path: Path, method: str) -> None:
    rng = np.random.default_rng(3)
    groups = [[{"x": float(rng.random() < 0.4), "y": float(rng.normal())} for _ in range(4)] for _ in range(20)]
    bounds = {"x": (0.0, 1.0), "y": (-10.0, 10.0)}
    found = diagnosed(log_of(tmp_path / "1.jsonl", groups), bounds=bounds, methods=[method])
    rewards = [[response["x"], response["y"]] for group in groups for response in group]
    labels = np.repeat(np.arange(20), 4)
    options = {"bounds": bounds} if method == "sa_mrpo" else {}
    mine = aggregate(method, rewards, labels, channels=["x", "y"], **options).advantages
    base = aggregate("gdpo", rewards, labels, channels=["x", "y"]).advantages
    (item,) = found.replays
    assert item.with_base.correlation == pytest.approx(np.corrcoef(mine, base)[0, 1])
    assert item.flipped == int((mine * base < -1e-16).sum())
    assert item.mass_share.sum() == pytest.approx(1)


def test_logged_advantages_name_the_method(tmp_path: Path) -> None:
    records = rows()
    rewards = [[row["correctness"], row["format"]] for row in records]
    logged = aggregate("grpo", rewards, [row["uid"] for row in records], channels=["correctness", "format"]).advantages
    for row, advantage in zip(records, logged, strict=True):
        row["advantage"] = float(advantage)
    assert any(
        "are those of" in line and "grpo" in line for line in findings(diagnosed(jsonl(tmp_path / "1.jsonl", records)))
    )


def test_finding_sparse_channel_at_the_cap(tmp_path: Path) -> None:
    varied = [{"c": 1.0, "f": 1.0}, {"c": 0.0, "f": 1.0}]
    groups = [[{"c": 1.0, "f": 1.0}, {"c": 0.0, "f": 0.0}]] + [varied] * 49
    found = diagnosed(log_of(tmp_path / "1.jsonl", groups))
    # c is active in 50 of 50 groups, f in 1 of 50: sqrt(50) = 7.07 is cut to 5.
    assert found.steps[0].channels["f"].weight == 5
    assert "f is active in 2 % of groups: dara_asym would weigh it 5.0 (cap)" in findings(found)
    assert any(
        line.startswith("f is at its highest value seen (1) throughout 98 % of groups") for line in findings(found)
    )
    assert any(line.startswith("c has 98 % of the advantage energy") for line in findings(found))


def test_finding_sum_filter_and_conflict(tmp_path: Path) -> None:
    lines = findings(diagnosed(jsonl(tmp_path / "1.jsonl", rows())))
    assert "a filter on the sum of the rewards would drop 1 group (33 %) in which a channel varies" in lines
    assert "channels pull 50 % of responses in opposite directions" in lines


def test_finding_dead_and_constant_channels(tmp_path: Path) -> None:
    groups = [[{"c": 1.0, "flat": 0.5, "dead": 1.0}, {"c": 0.0, "flat": 0.5, "dead": 1.0}]]
    groups += [[{"c": 1.0, "flat": 0.5, "dead": 0.0}, {"c": 0.0, "flat": 0.5, "dead": 0.0}]]
    found = diagnosed(log_of(tmp_path / "1.jsonl", groups))
    lines = findings(found)
    assert "flat is 0.5 in every response: it tells nothing apart; check its reward function" in lines
    assert "dead never varies within a group: no method can learn from it" in lines
    assert found.steps[0].channels["dead"].all_low == found.steps[0].channels["dead"].all_high == 0.5


def test_finding_unequal_prompts(tmp_path: Path) -> None:
    groups = [[{"c": value}] * 4 for value in (0.0, 1.0) for _ in range(5)] + [[{"c": 1.0}, {"c": 0.0}] * 2]
    lines = findings(diagnosed(log_of(tmp_path / "1.jsonl", groups)))
    # Rate 1/2, so q = 7/8 if all were alike; 1 of 11 groups is active.
    assert any("succeeds in 50 % of responses, which would make 88 % of groups active" in line for line in lines)
    assert any("9 % are" in line for line in lines)


def test_finding_falling_density(tmp_path: Path) -> None:
    varied, solved = [{"c": 1.0}, {"c": 0.0}], [{"c": 1.0}, {"c": 1.0}]
    records = []
    for step in range(10):
        for place in range(10):
            group = varied if place < 10 - step else solved
            records += [{"step": step, "uid": f"g{place}", **reward} for reward in group]
    lines = findings(diagnosed(jsonl(tmp_path / "1.jsonl", records)))
    assert any(line.startswith("the density of c falls from 95 % to 15 %") for line in lines)


def test_nothing_stands_out(tmp_path: Path) -> None:
    varied = [{"a": 1.0, "b": 1.0}, {"a": 0.0, "b": 0.0}]
    assert findings(diagnosed(log_of(tmp_path / "1.jsonl", [varied] * 5)))[0].startswith("nothing stands out")


def test_bounds_decide_low_and_high(tmp_path: Path) -> None:
    groups = [[{"c": 2.0}, {"c": 2.0}], [{"c": 1.0}, {"c": 2.0}], [{"c": 1.0}, {"c": 1.0}]]
    path = log_of(tmp_path / "1.jsonl", groups)
    seen = diagnosed(path).steps[0].channels["c"]
    assert (seen.all_low, seen.all_high, seen.same) == (pytest.approx(1 / 3), pytest.approx(1 / 3), 0)
    declared = diagnosed(path, bounds={"c": (-3.0, 3.0)}).steps[0].channels["c"]
    assert (declared.all_low, declared.all_high, declared.same) == (0, 0, pytest.approx(2 / 3))
    assert math.isnan(declared.success)


def test_reward_outside_its_bounds_is_an_error(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "1.jsonl", rows())
    with pytest.raises(UserError, match=r"1\.jsonl line 1: correctness is 1, outside --bounds correctness=0,0\.5"):
        diagnosed(path, bounds={"correctness": (0.0, 0.5)})
    with pytest.raises(UserError, match="not a channel of the log"):
        diagnosed(path, bounds={"korrekt": (0.0, 1.0)})


def test_token_normalisation(tmp_path: Path) -> None:
    records = [row | {"response_tokens": 10 * place + 5} for place, row in enumerate(rows())]
    found = diagnosed(jsonl(tmp_path / "1.jsonl", records), normalization="token", methods=["gdpo", "dara_sym"])
    lengths = [row["response_tokens"] for row in records]
    rewards = [[row["correctness"], row["format"]] for row in records]
    options = {"channels": ["correctness", "format"], "lengths": lengths, "normalization": "token"}
    mine, base = (
        aggregate(name, rewards, [row["uid"] for row in records], **options).advantages for name in ("dara_sym", "gdpo")
    )
    assert found.replays[1].with_base.correlation == pytest.approx(np.corrcoef(mine, base)[0, 1])
    with pytest.raises(UserError, match="--length"):
        diagnosed(jsonl(tmp_path / "2.jsonl", rows()), normalization="token")


def test_processes_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of steps measured in other processes, a method of the user's among them: to the last bit the same."""
    (tmp_path / "mine.py").write_text("def mine(batch, *, progress=None):\n    return progress * batch.summed()\n")
    records = [row for step in range(50) for row in rows(step)]
    for number, record in enumerate(records):
        record["correctness"] = (number * 7919 % 13) / 13
    path = jsonl(tmp_path / "log.jsonl", records)
    options = {"methods": ["gdpo", "dara_asym", str(tmp_path / "mine.py")], "bounds": {"format": (0.0, 1.0)}}
    alone = diagnosed(path, **options)
    monkeypatch.setattr(report, "_PARALLEL_FROM", 0)
    monkeypatch.setattr(report, "WORKERS", 3)
    shared = diagnosed(path, **options)
    assert [step.step for step in shared.steps] == list(range(50))
    assert repr(shared.steps) == repr(alone.steps)
    for first, second in zip(alone.replays, shared.replays, strict=True):
        assert first.responses == second.responses == len(records)
        assert (first.with_base.correlation, first.flipped) == (second.with_base.correlation, second.flipped)
        np.testing.assert_array_equal(first.mass, second.mass)
        np.testing.assert_array_equal(first.mean_weights, second.mean_weights)
