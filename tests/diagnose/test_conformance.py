"""The table of differences: verdicts against peers whose behaviour is known, and the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.diagnose import conformance
from harness.diagnose.conformance import compare, ours
from harness.diagnose.conformance_batches import ASPECTS, BATCHES, PUBLISHED, Golden
from harness.diagnose.conformance_peers import NotExpressible, Peer

GOLDEN = {golden.name: golden for golden in BATCHES}


def peer(run: Any) -> Peer:
    return Peer("peer", "1", run)


def test_verdicts() -> None:
    plain, spread = GOLDEN["plain"], GOLDEN["small spread"]
    assert compare("gdpo", plain, peer(ours)).verdict == "same"
    other_eps = compare("grpo", spread, peer(lambda method, golden: ours(method, golden, eps=1e-4)))
    assert other_eps.verdict == "same with eps 0.0001"
    assert other_eps.difference is not None
    assert other_eps.difference > 0.01
    token = peer(lambda method, golden: ours(method, golden, normalization="token"))
    assert compare("gdpo", GOLDEN["one long response"], token).verdict == "same with token"
    assert compare("grpo", GOLDEN["pairs"], peer(lambda m, g: ours(m, g, ddof=0))).verdict == "same with ddof 0"
    shifted = compare("grpo", plain, peer(lambda method, golden: ours(method, golden) + 0.5))
    assert shifted.verdict == "differs"
    assert shifted.difference == pytest.approx(0.5)


def test_what_a_peer_cannot_do_is_reported() -> None:
    def refuses(method: str, golden: Golden) -> np.ndarray:
        raise NotExpressible("groups have one size")

    def breaks(method: str, golden: Golden) -> np.ndarray:
        raise KeyError("x")

    plain = GOLDEN["plain"]
    assert compare("gdpo", plain, peer(refuses)).verdict == "not expressible"
    assert compare("gdpo", plain, peer(breaks)).verdict == "error"
    nan = compare("gdpo", plain, peer(lambda m, g: ours(m, g) * np.nan))
    assert (nan.verdict, nan.difference) == ("not finite", None)


def test_batches_show_what_they_say() -> None:
    """Each golden batch tells the default from the option it is about."""
    changed = {
        "small spread": ("grpo", {"eps": 1e-4}),
        "pairs": ("grpo", {"ddof": 0}),
        "one long response": ("gdpo", {"normalization": "token"}),
    }
    for name, (method, options) in changed.items():
        assert np.abs(ours(method, GOLDEN[name]) - ours(method, GOLDEN[name], **options)).max() > 0.01
    assert ours("gdpo", GOLDEN["group of one"])[-1] == 0
    assert ours("grpo", GOLDEN["hidden by the sum"])[:4].tolist() == [0] * 4
    dead = GOLDEN["dead channel"]
    alone = [[first] for first, _ in dead.rewards]
    assert ours("gdpo", dead) == pytest.approx(
        conformance.aggregate("gdpo", alone, dead.labels, channels=["first"]).advantages
    )


def test_one_long_response_by_hand() -> None:
    # Both channels agree: S = sqrt(2) (1, -1, 1, -1). Over responses std is sqrt(8/3).
    golden = GOLDEN["one long response"]
    assert ours("gdpo", golden) == pytest.approx(np.array([1, -1, 1, -1]) * np.sqrt(3) / 2, rel=1e-5)
    # Over 1,030 tokens the mean of (1, -1, 1, -1) is 990 / 1030 and the variance 0.076236 (Bessel over tokens).
    assert ours("gdpo", golden, normalization="token") == pytest.approx(
        [0.14065, -7.10288, 0.14065, -7.10288], abs=1e-4
    )


def test_published_aspects_are_known() -> None:
    assert all(set(row) <= set(ASPECTS) for row in PUBLISHED.values())


def test_command(tmp_path: Path, harness: Any) -> None:
    result = harness("conformance", "--json", "out.json")
    assert result.returncode == 0, result.stderr
    for name in ("small spread", "ms-swift", "OpenRLHF", "published"):
        assert name in result.stdout
    assert set(json.loads((tmp_path / "out.json").read_text())) == {"versions", "absent", "comparisons"}


@pytest.mark.verl
def test_verl_as_known() -> None:
    """What its code does: token whitening, the raw reward for a group of one, NaN throughout."""
    pytest.importorskip("verl")
    with conformance.peers() as (found, _):
        (verl,) = (item for item in found if item.name == "verl")
        verdicts = {(m, g.name): compare(m, g, verl) for m in ("grpo", "gdpo") for g in BATCHES}
    assert verdicts["grpo", "plain"].verdict == "same"
    assert verdicts["gdpo", "plain"].verdict == "same with token"
    assert verdicts["gdpo", "one long response"].verdict == "same with token"
    assert verdicts["grpo", "group of one"].theirs is not None
    assert verdicts["grpo", "group of one"].theirs[-1] == pytest.approx(2, abs=1e-5)
    assert verdicts["grpo", "missing reward"].verdict == "not finite"


@pytest.mark.slow
def test_trl_as_known() -> None:
    """What its trainer does: eps 1e-4 in both places, and a missing reward adds 0 to the sum."""
    pytest.importorskip("trl")
    with conformance.peers() as (found, _):
        (trl,) = (item for item in found if item.name == "TRL")
        verdicts = {(m, g.name): compare(m, g, trl) for m in ("grpo", "gdpo") for g in BATCHES}
    assert verdicts["grpo", "small spread"].verdict == "same with eps 0.0001"
    assert verdicts["gdpo", "small spread"].verdict == "same with eps 0.0001, final eps 0.0001"
    assert verdicts["gdpo", "missing reward"].verdict == "same with eps 0.0001, final eps 0.0001"
    assert verdicts["grpo", "missing reward"].verdict == "differs"
    assert verdicts["grpo", "group of one"].verdict == "not expressible"
