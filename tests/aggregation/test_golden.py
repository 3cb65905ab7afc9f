"""Hand-computed values of every method on one tiny batch.

Two groups of four, channels correctness (c) and format (f):

    group   c            f
    a       1 0 1 0      1 1 0 0
    b       1 1 0 0      0 0 0 0   (constant)

With eps = 0 and ddof 1, a half-and-half binary column has mean 1/2, squares 4 * 1/4 = 1, std sqrt(1/3), hence
A = +-(1/2) sqrt(3) = +-H. So A_c = H * [1 -1 1 -1 | 1 1 -1 -1] and A_f = H * [1 1 -1 -1 | 0 0 0 0].
"""

import math
from pathlib import Path

import numpy as np
import pytest

from harness.aggregation import aggregate, method_names
from harness.aggregation.normalize import normalize

H = math.sqrt(3) / 2
R2, R3 = math.sqrt(2), math.sqrt(3)
CHANNELS = ["correctness", "format"]
GROUPS = list("aaaabbbb")
REWARDS = np.array([[1, 1], [0, 1], [1, 0], [0, 0], [1, 0], [1, 0], [0, 0], [0, 0]], dtype=float)
BOUNDS = {"correctness": (0, 1), "format": (0, 1)}
TOP_B = [1, 1, -1, -1]


def run(name, rewards=REWARDS, **params):
    return aggregate(name, rewards, GROUPS, channels=CHANNELS, **params)


def by_response(scores):
    """(S - mean) / (std + 1e-6), written out."""
    mean = sum(scores) / len(scores)
    std = math.sqrt(sum((s - mean) ** 2 for s in scores) / (len(scores) - 1))
    return [(s - mean) / (std + 1e-6) for s in scores]


def test_measurements_of_the_batch():
    found = run("gdpo", eps=0.0)
    signs_c, signs_f = [1, -1, 1, -1, 1, 1, -1, -1], [1, 1, -1, -1, 0, 0, 0, 0]
    np.testing.assert_allclose(found.channel_advantages, H * np.array([signs_c, signs_f]).T, atol=1e-15)
    assert found.active.tolist() == [[True, True], [True, False]]
    assert found.groups == ["a", "b"]
    assert found.density == {"correctness": 1.0, "format": 0.5}
    # 8 entries of 3/4, and 4 of them: B * pi * (G - 1) = 2 * 1 * 3 and 2 * 1/2 * 3
    assert found.energy == pytest.approx({"correctness": 6.0, "format": 3.0})
    assert found.weights == {"correctness": 1.0, "format": 1.0}
    assert found.missing == {"correctness": 0, "format": 0}
    assert found.cap_hit == {"correctness": False, "format": False}
    assert (found.left_out, found.method, found.normalization) == (0, "gdpo", "response")


def test_gdpo():
    # S = H * [2 0 0 -2 | 1 1 -1 -1]: mean 0, squares 12 * 3/4 = 9, std sqrt(9/7)
    found = run("gdpo", eps=0.0)
    scores = H * np.array([2, 0, 0, -2, *TOP_B])
    np.testing.assert_allclose(found.scores, scores, atol=1e-15)
    np.testing.assert_allclose(found.advantages, scores / (math.sqrt(9 / 7) + 1e-6), rtol=1e-12)


def test_gdpo_weights_multiply_the_normalised_advantages():
    found = run("gdpo", eps=0.0, weights={"format": 2.0, "correctness": 0.5})
    # group a: 0.5 c + 2 f in units of H
    np.testing.assert_allclose(found.scores[:4], H * np.array([2.5, 1.5, -1.5, -2.5]), rtol=1e-14)
    assert found.weights == {"correctness": 0.5, "format": 2.0}


def test_eps_and_ddof_of_the_channel_advantages():
    # std sqrt(1/3) (ddof 1) or sqrt(1/4) (ddof 0); eps is added to it
    assert run("gdpo").channel_advantages[0, 0] == pytest.approx(0.5 / (math.sqrt(1 / 3) + 1e-6), rel=1e-14)
    assert run("gdpo", eps=0.1).channel_advantages[0, 0] == pytest.approx(0.5 / (math.sqrt(1 / 3) + 0.1), rel=1e-14)
    assert run("gdpo", eps=0.0, ddof=0).channel_advantages[0, 0] == pytest.approx(1.0, rel=1e-14)


def test_dara_sym():
    # densities 1 and 1/2: omega_f = sqrt(2). Group a in units of H: c + sqrt(2) f
    found = run("dara_sym", eps=0.0)
    scores = H * np.array([1 + R2, -1 + R2, 1 - R2, -1 - R2, *TOP_B])
    np.testing.assert_allclose(found.scores, scores, rtol=1e-14)
    # squares: 3/4 * (2 (1 + R2)^2 + 2 (R2 - 1)^2 + 4) = 3/4 * 16 = 12; mean 0
    np.testing.assert_allclose(found.advantages, scores / (math.sqrt(12 / 7) + 1e-6), rtol=1e-12)
    assert found.weights == pytest.approx({"correctness": 1.0, "format": R2})


def test_dara_asym():
    # only positive f is amplified: H * [1 + R2, -1 + R2, 1 - 1, -1 - 1]
    found = run("dara_asym", eps=0.0)
    scores = H * np.array([1 + R2, R2 - 1, 0, -2, *TOP_B])
    np.testing.assert_allclose(found.scores, scores, atol=1e-15)
    np.testing.assert_allclose(found.advantages, by_response(scores), rtol=1e-12)
    assert found.weights == pytest.approx({"correctness": 1.0, "format": R2})


def test_dara_cap():
    found = run("dara_sym", w_max=1.25)
    assert found.weights == {"correctness": 1.0, "format": 1.25}
    assert found.cap_hit == {"correctness": False, "format": True}
    # 1 of 50 groups active against 50 of 50: sqrt(50) = 7.07 is cut to the default 5
    rewards = np.zeros((100, 2))
    rewards[::2, 0] = 1
    rewards[0, 1] = 1
    found = aggregate("dara_asym", rewards, np.arange(100) // 2, channels=CHANNELS)
    assert found.weights == {"correctness": 1.0, "format": 5.0}
    assert found.cap_hit == {"correctness": False, "format": True}
    uncapped = aggregate("dara_asym", rewards, np.arange(100) // 2, channels=CHANNELS, w_max=math.inf)
    assert uncapped.weights["format"] == pytest.approx(math.sqrt(50))


def test_dead_channels_have_weight_one():
    rewards = REWARDS * [1, 0]
    found = run("dara_asym", rewards)
    assert found.weights == {"correctness": 1.0, "format": 1.0}
    assert found.density["format"] == 0.0
    dead = run("dara_asym", np.full((8, 2), 0.1))
    assert dead.weights == {"correctness": 1.0, "format": 1.0}
    assert (dead.advantages == 0).all()


def test_static():
    weights = {"correctness": 1, "format": 5}
    # group a in units of H: c + 5 f, and with 5 only where f is positive
    sym, asym = run("static_sym", weights=weights, eps=0.0), run("static_asym", weights=weights, eps=0.0)
    np.testing.assert_allclose(sym.scores, H * np.array([6, 4, -4, -6, *TOP_B]), rtol=1e-14)
    np.testing.assert_allclose(asym.scores, H * np.array([6, 4, 0, -2, *TOP_B]), atol=1e-14)
    np.testing.assert_allclose(asym.advantages, by_response(asym.scores), rtol=1e-12, atol=1e-15)


def test_static_default_is_the_papers_control():
    found = aggregate("static_asym", REWARDS, GROUPS, channels=["correctness", "length"])
    assert found.weights == {"correctness": 1.0, "length": 5.0}
    with pytest.raises(ValueError, match=r"names channel 'length'.*valid: correctness, format"):
        run("static_asym")


def test_grpo():
    # R = 2 1 1 0 | 1 1 0 0. Group a: mean 1, squares 2, std sqrt(2/3). Group b as a binary column: +-H
    found = run("grpo", eps=0.0)
    top = math.sqrt(3 / 2)
    np.testing.assert_allclose(found.advantages, [top, 0, 0, -top, H, H, -H, -H], atol=1e-15)
    assert found.normalization is None
    assert run("grpo").advantages[0] == pytest.approx(1 / (math.sqrt(2 / 3) + 1e-6), rel=1e-14)
    # population std of group a: sqrt(1/2)
    assert run("grpo", eps=0.0, ddof=0).advantages[0] == pytest.approx(R2, rel=1e-14)


def test_grpo_sees_nothing_in_a_group_whose_sums_agree():
    rewards = REWARDS.copy()
    rewards[:4] = [[1, 0], [0, 1], [1, 0], [0, 1]]
    found = run("grpo", rewards)
    assert (found.advantages[:4] == 0).all()
    assert found.active[0].all()


def test_dr_grpo():
    np.testing.assert_allclose(run("dr_grpo").advantages, [1, 0, 0, -1, 0.5, 0.5, -0.5, -0.5], atol=1e-15)


def test_dvao():
    # population std 1/2 of each varying column, w = 1/2.
    # Group a: numerator (c - 1/2)/2 + (f - 1/2)/2 = [1/2 0 0 -1/2], denominator 1/4 + 1/4 -> [1 0 0 -1].
    # Group b: +-1/4 over 1/4 -> +-1.
    found = run("dvao")
    np.testing.assert_allclose(found.advantages, [1, 0, 0, -1, 1, 1, -1, -1], atol=1e-15)
    # share of the spread: a 1/2 and 1/2, b 1 and 0
    assert found.weights == pytest.approx({"correctness": 0.75, "format": 0.25})
    # w = (1, 3): a: numerator 1 (c - 1/2) + 3 (f - 1/2) = [2 1 -1 -2], denominator 1/2 + 3/2 = 2
    weighted = run("dvao", weights={"correctness": 1, "format": 3})
    np.testing.assert_allclose(weighted.advantages[:4], [1, 0.5, -0.5, -1], rtol=1e-14)
    # ddof 1: std sqrt(1/3), so group b gives (1/2) / sqrt(1/3) = H
    assert run("dvao", ddof=1).advantages[4] == pytest.approx(H, rel=1e-14)


def test_dvao_zero_where_the_denominator_is_tiny():
    found = run("dvao", REWARDS * 1e-9)
    assert (found.advantages == 0).all()


def test_saw():
    # c over the batch: mean 1/2, squares 8/4 = 2, std sqrt(2/7), CV 2 sqrt(2/7).
    # f: mean 1/4, squares 2 * 9/16 + 6 * 1/16 = 3/2, std sqrt(1.5/7), CV 4 sqrt(1.5/7). Ratio 2 sqrt(3/4) = sqrt(3).
    found = run("saw", bounds=BOUNDS, eps=0.0)
    omega_c, omega_f = 2 / (1 + R3), 2 * R3 / (1 + R3)
    assert found.weights == pytest.approx({"correctness": omega_c, "format": omega_f}, rel=1e-7)
    np.testing.assert_allclose(
        found.scores[:4] / H,
        [omega_c + omega_f, omega_f - omega_c, omega_c - omega_f, -omega_c - omega_f],
        rtol=1e-6,
    )
    np.testing.assert_allclose(found.advantages, by_response(found.scores), rtol=1e-10)


def test_saw_shifts_a_channel_to_its_lower_bound():
    # c' = 6 c - 3 in [-3, 3]: std 6 sqrt(2/7), shifted mean 3, CV 2 sqrt(2/7) as before; unshifted the mean would be 0
    shifted = run("saw", REWARDS * [6, 1] - [3, 0], bounds={"correctness": (-3, 3), "format": (0, 1)}, eps=0.0)
    assert shifted.weights == pytest.approx(run("saw", bounds=BOUNDS).weights, rel=1e-7)
    # a lower bound of -1 instead of 0 raises the shifted mean from 1/2 to 3/2: CV_c = (2/3) sqrt(2/7), ratio 3 sqrt(3)
    lower = run("saw", bounds={"correctness": (-1, 1), "format": (0, 1)})
    assert lower.weights["format"] == pytest.approx(2 * 3 * R3 / (1 + 3 * R3), rel=1e-7)


def test_saw_with_every_cv_zero_has_weights_one():
    found = run("saw", np.full((8, 2), 0.1), bounds=BOUNDS)
    assert found.weights == {"correctness": 1.0, "format": 1.0}
    assert (found.advantages == 0).all()


def test_saw_grpo():
    # v = [1, sqrt(3)] / (1 + sqrt(3)). Group a: (1 + R3) R = [1 + R3, R3, 1, 0], mean (1 + R3)/2, centred
    # [(1 + R3)/2, (R3 - 1)/2, ...] with squares (4 + 2 R3)/2 + (4 - 2 R3)/2 = 4, std sqrt(4/3) -> times R3/2.
    found = run("saw_grpo", bounds=BOUNDS, eps=0.0)
    high, low = (1 + R3) * R3 / 4, (R3 - 1) * R3 / 4
    np.testing.assert_allclose(found.advantages, [high, low, -low, -high, H, H, -H, -H], rtol=1e-6)
    assert found.weights == pytest.approx({"correctness": 1 / (1 + R3), "format": R3 / (1 + R3)}, rel=1e-7)


def test_sa_mrpo():
    # s_c = 1/2, s_f = 1/4: weights sqrt(1/2) and sqrt(3/4)
    found = run("sa_mrpo", bounds=BOUNDS, eps=0.0, ddof=0)
    c, f = math.sqrt(0.5), math.sqrt(0.75)
    np.testing.assert_allclose(found.scores, [c + f, f - c, c - f, -c - f, c, c, -c, -c], rtol=1e-14)
    np.testing.assert_allclose(found.advantages, by_response(found.scores), rtol=1e-12)
    # gamma 1/4, other bounds: s_c = (1/2 + 1)/2 = 3/4, (1/4)^(1/4) = sqrt(1/2); and a prescribed weight 2 for f
    other = run(
        "sa_mrpo",
        bounds={"correctness": (-1, 1), "format": (0, 1)},
        gamma=0.25,
        weights={"correctness": 1, "format": 2},
    )
    assert other.weights == pytest.approx({"correctness": math.sqrt(0.5), "format": 2 * 0.75**0.25})


def test_gd2po_hard_weight_after():
    # a1 and a2 are in conflict; kept S = H * [2 -2 | 1 1 -1 -1], mean 0, squares 12 * 3/4 = 9, std sqrt(9/5).
    # rho_a = 1/2, rho_b = 1
    found = run("gd2po_hard", eps=0.0)
    unit = H / (math.sqrt(9 / 5) + 1e-6)
    np.testing.assert_allclose(found.advantages, unit * np.array([1, 0, 0, -1, *TOP_B]), atol=1e-15)


def test_gd2po_hard_weight_before():
    # rho S = H * [1 -1 | 1 1 -1 -1]: squares 6 * 3/4, std sqrt(4.5/5) = sqrt(0.9)
    found = run("gd2po_hard", eps=0.0, order="weight_before")
    unit = H / (math.sqrt(0.9) + 1e-6)
    np.testing.assert_allclose(found.advantages, unit * np.array([1, 0, 0, -1, *TOP_B]), atol=1e-15)


def test_gd2po_token_whitening_counts_the_kept_tokens_only():
    # kept: a0 (S = 2H, 1 token), a3 (-2H, 1), b (H H -H -H, 1 each); the dropped have 1000 tokens each
    lengths = [1, 1000, 1000, 1, 1, 1, 1, 1]
    found = run("gd2po_hard", eps=0.0, lengths=lengths, normalization="token", order="weight_before")
    # over 6 tokens: mean 0, var 4.5/5
    np.testing.assert_allclose(
        found.advantages, H / math.sqrt(0.9 + 1e-8) * np.array([1, 0, 0, -1, *TOP_B]), atol=1e-15
    )


def test_gd2po_with_fewer_than_two_kept_is_zero():
    rewards = [[1, 0], [0, 1], [1, 0], [0, 1]]
    for order in ("weight_after", "weight_before"):
        found = aggregate("gd2po_hard", rewards, list("aaaa"), channels=CHANNELS, order=order)
        assert found.advantages.tolist() == [0, 0, 0, 0]


def test_gd2po_snr():
    # c = 1 0 0 0: mean 1/4, squares 3/4, std 1/2, A = [3/2 -1/2 -1/2 -1/2]; f = 0 1 1 0: A = H * [-1 1 1 -1].
    # a0: |1.5 - H| / (1.5 + H) = 0.2679; a1, a2: (H - 0.5) / (H + 0.5) = 0.2679 as well; a3 is not in conflict.
    rewards = REWARDS.copy()
    rewards[:4] = [[1, 0], [0, 1], [0, 1], [0, 0]]
    cut = run("gd2po_snr", rewards, snr_threshold=0.27)
    np.testing.assert_array_equal(cut.advantages[:3], 0)
    assert cut.advantages[3] != 0
    np.testing.assert_allclose(
        run("gd2po_snr", rewards, snr_threshold=0.26).advantages, run("gdpo", rewards).advantages, rtol=1e-14
    )
    np.testing.assert_array_equal(run("gd2po_snr", rewards).advantages, run("gd2po_hard", rewards).advantages)


def test_rvpo():
    # a0: both H -> H; a1, a2: -log((e^H + e^-H)/2) = -log cosh H; a3: -H; b: one A is 0: -log((e^-+H + 1)/2)
    found = run("rvpo", eps=0.0)
    bend = -math.log(math.cosh(H))
    plus, minus = -math.log((math.exp(-H) + 1) / 2), -math.log((math.exp(H) + 1) / 2)
    np.testing.assert_allclose(found.scores, [H, bend, bend, -H, plus, plus, minus, minus], rtol=1e-13)
    np.testing.assert_allclose(found.advantages, by_response(found.scores), rtol=1e-12)


def test_rvpo_schedule():
    fixed = run("rvpo", kappa=1.25)
    for schedule in ([0.5, 2.0], (0.5, 2.0), {"start": 0.5, "end": 2.0}):
        np.testing.assert_array_equal(run("rvpo", kappa=schedule, progress=0.5).advantages, fixed.advantages)
    np.testing.assert_array_equal(run("rvpo", kappa=[0.5, 2], progress=1).advantages, run("rvpo", kappa=2).advantages)
    with pytest.raises(ValueError, match="needs progress"):
        run("rvpo", kappa=[0.5, 2.0])


def test_mo_grpo():
    # c times 10: A is unchanged, so R = A_c + A_f. Group a: H * [2 0 0 -2], squares 6, std sqrt(2) -> +-sqrt(3/2)
    found = run("mo_grpo", REWARDS * [10, 1], eps=0.0)
    top = math.sqrt(3 / 2)
    np.testing.assert_allclose(found.advantages, [top, 0, 0, -top, H, H, -H, -H], atol=1e-14)


def test_normalisations_differ_with_the_lengths():
    # tokens: mean = (1010 - 20)/1030 = 0.9612; var = sum l (S - mean)^2 / 1029 = 0.0762
    scores, lengths = np.array([1.0, -1.0, 1.0, -1.0]), np.array([10.0, 10.0, 1000.0, 10.0])
    mean = 990 / 1030
    var = (1010 * (1 - mean) ** 2 + 20 * (1 + mean) ** 2) / 1029
    expected = [(s - mean) / math.sqrt(var + 1e-8) for s in scores]
    np.testing.assert_allclose(normalize(scores, "token", lengths), expected, rtol=1e-14)
    np.testing.assert_allclose(expected, [0.14, -7.10, 0.14, -7.10], atol=0.005)
    np.testing.assert_allclose(normalize(scores, "response", lengths), H * scores, rtol=2e-6)


def test_every_method_has_a_golden_value():
    text = Path(__file__).read_text(encoding="utf-8")
    assert [name for name in method_names() if f'run("{name}"' not in text] == []
