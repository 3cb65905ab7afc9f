"""What must hold for any batch: energy, bounds, invariances, limiting cases, missing rewards."""

import numpy as np
import pytest
from aggregation_strategies import BOUNDS, batches, parameters
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from harness.aggregation import aggregate, method_names, method_parameters, prepare

METHODS = method_names()
CHANNELWISE = [
    name for name in METHODS if name not in ("grpo", "dr_grpo", "dvao", "saw_grpo")
]  # independent of the scale of a single channel
CLOSE = {"rtol": 1e-6, "atol": 1e-7}


def run(method, batch, normalization="response", **params):
    rewards, labels, channels, lengths = batch
    return aggregate(
        method,
        rewards,
        labels,
        channels=channels,
        lengths=lengths,
        normalization=normalization,
        **parameters(method, channels, **params),
    )


def exact(method):
    """eps = 0 wherever the method has it."""
    return {"eps": 0.0} if "eps" in method_parameters(method) else {}


@given(batches(sizes=st.just(4)))
def test_energy_identity(batch):
    found = run("gdpo", batch, eps=0.0)
    for name in batch[2]:
        assert found.energy[name] == pytest.approx(len(found.groups) * found.density[name] * 3, rel=1e-9)


@given(batches())
def test_energy_of_uneven_groups(batch):
    found = run("gdpo", batch, eps=0.0)
    labels, counts = np.unique(batch[1], return_counts=True)
    size = dict(zip(labels.tolist(), counts.tolist(), strict=True))
    wanted = sum(found.active[row] * (size[label] - 1) for row, label in enumerate(found.groups))
    np.testing.assert_allclose(list(found.energy.values()), wanted, rtol=1e-9)


@given(batches(sizes=st.just(5)))
def test_dara_sym_without_cap_gives_active_channels_equal_energy(batch):
    found = run("dara_sym", batch, eps=0.0, tau=0.0, w_max=np.inf)
    reference = len(found.groups) * max(found.density.values()) * 4
    for name in batch[2]:
        if found.density[name] > 0:
            assert found.weights[name] ** 2 * found.energy[name] == pytest.approx(reference, rel=1e-9)


@given(batches(), st.floats(1.0, 10.0))
def test_bounds_of_the_asymmetric_transform(batch, weight):
    rewards, labels, channels, lengths = batch
    one = (rewards[:, :1], labels, channels[:1], lengths)
    found = run("static_asym", one, weights={channels[0]: weight})
    a, s = found.channel_advantages[:, 0], found.scores
    positive = np.maximum(a, 0)
    e, e_plus, q_plus = a @ a, positive @ positive, positive.sum()
    np.testing.assert_allclose(s, a + (weight - 1) * positive, rtol=1e-12, atol=1e-12)
    centred = ((s - s.mean()) ** 2).sum()
    lower = e + 2 * (weight - 1) * e_plus
    assert centred == pytest.approx(lower + (weight - 1) ** 2 * (e_plus - q_plus**2 / len(a)), rel=1e-9, abs=1e-9)
    slack = 1e-9 * (1 + weight**2 * e)
    assert e <= lower + slack
    assert lower <= centred + slack
    assert centred <= e + (weight**2 - 1) * e_plus + slack
    assert e + (weight**2 - 1) * e_plus <= weight**2 * e + slack


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=20)
@given(
    batch=batches(missing=True), normalization=st.sampled_from(["response", "token"]), seed=st.integers(0, 2**32 - 1)
)
def test_order_and_names_do_not_matter(method, batch, normalization, seed):
    rewards, labels, channels, lengths = batch
    assume(_comparable(batch))
    order = np.random.default_rng(seed).permutation(len(labels))
    renamed = [f"uid-{labels[n]}" for n in order]
    first = run(method, batch, normalization)
    second = run(method, (rewards[order], renamed, channels, lengths[order]), normalization)
    np.testing.assert_allclose(second.advantages, first.advantages[order], **CLOSE)
    np.testing.assert_allclose(second.channel_advantages, first.channel_advantages[order], **CLOSE)
    for name in ("density", "energy", "weights", "missing", "cap_hit"):
        assert getattr(second, name) == pytest.approx(getattr(first, name), rel=1e-9, abs=1e-12)
    rows = {label: first.active[row].tolist() for row, label in enumerate(first.groups)}
    assert {f"uid-{label}": active for label, active in rows.items()} == {
        label: second.active[row].tolist() for row, label in enumerate(second.groups)
    }


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=20)
@given(batch=batches(missing=True), offset=st.sampled_from([-7.0, 0.1, 1e3, 1e6]))
def test_shifting_a_channel_changes_nothing(method, batch, offset):
    assume(_comparable(batch))
    rewards, labels, channels, lengths = batch
    moved = rewards.copy()
    moved[:, 0] += offset
    params = {}
    if "bounds" in method_parameters(method):
        params["bounds"] = {name: BOUNDS[name] for name in channels}
        params["bounds"][channels[0]] = tuple(bound + offset for bound in BOUNDS[channels[0]])
    first, second = run(method, batch), run(method, (moved, labels, channels, lengths), **params)
    np.testing.assert_allclose(second.advantages, first.advantages, rtol=1e-5, atol=1e-6)
    assert (second.active == first.active).all()


@pytest.mark.parametrize("method", CHANNELWISE)
@settings(max_examples=20)
@given(batch=batches(missing=True), factor=st.sampled_from([1e-4, 0.3, 7.0, 1e5]))
def test_scaling_one_channel_changes_nothing(method, batch, factor):
    assume(_comparable(batch))
    rewards, labels, channels, lengths = batch
    scaled = rewards.copy()
    scaled[:, -1] *= factor
    params = exact(method)
    if "bounds" in method_parameters(method):
        params["bounds"] = {name: BOUNDS[name] for name in channels}
        params["bounds"][channels[-1]] = tuple(bound * factor for bound in BOUNDS[channels[-1]])
    first = run(method, batch, **exact(method))
    second = run(method, (scaled, labels, channels, lengths), **params)
    # the 1e-8 in a coefficient of variation is not scaled
    tolerance = {"rtol": 1e-3, "atol": 1e-3} if method == "saw" else CLOSE
    np.testing.assert_allclose(second.advantages, first.advantages, **tolerance)


@pytest.mark.parametrize("method", ["grpo", "dvao", "saw_grpo", "dr_grpo"])
@given(batch=batches(missing=True))
def test_scaling_all_channels_alike(method, batch):
    assume(_comparable(batch))
    rewards, labels, channels, lengths = batch
    params = exact(method)
    if "bounds" in method_parameters(method):
        params["bounds"] = {name: tuple(8 * bound for bound in BOUNDS[name]) for name in channels}
    first = run(method, batch, **exact(method))
    second = run(method, (8 * rewards, labels, channels, lengths), **params)
    factor = 8 if method == "dr_grpo" else 1
    np.testing.assert_allclose(second.advantages, factor * first.advantages, **CLOSE)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=20)
@given(batch=batches(missing=True))
def test_responses_without_any_reward_are_as_if_absent(method, batch):
    assume(_comparable(batch))
    rewards, labels, channels, lengths = batch
    some = ~np.isnan(rewards).all(axis=1)
    kept = (rewards[some], [label for label, keep in zip(labels, some, strict=True) if keep], channels, lengths[some])
    for normalization in ("response", "token"):
        first, second = run(method, batch, normalization), run(method, kept, normalization)
        np.testing.assert_array_equal(first.advantages[some], second.advantages)
        assert (first.advantages[~some] == 0).all()
        assert first.groups == second.groups
        assert first.density == second.density
        assert first.left_out == (~some).sum()
    assert list(first.missing.values()) == np.isnan(rewards).sum(axis=0).tolist()


@given(batches(missing=True))
def test_missing_rewards_have_no_channel_advantage_and_no_say(batch):
    assume(_comparable(batch))
    rewards, labels, channels, _ = batch
    found = run("gdpo", batch)
    assert (found.channel_advantages[np.isnan(rewards)] == 0).all()
    for column, name in enumerate(channels):
        there = ~np.isnan(rewards[:, column])
        for label in set(labels):
            rows = [n for n in range(len(labels)) if labels[n] == label and there[n]]
            if len(rows) < 2:
                assert not found.channel_advantages[rows, column].any()
                continue
            values = rewards[rows, column]
            wanted = (values - values.mean()) / (values.std(ddof=1) + 1e-6)
            if np.ptp(values) == 0:
                wanted = np.zeros(len(rows))
            np.testing.assert_allclose(found.channel_advantages[rows, column], wanted, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=20)
@given(batch=batches(missing=True))
def test_an_empty_mask_or_one_token_gives_zeros(method, batch):
    assume(_comparable(batch))
    rewards, labels, channels, lengths = batch
    nothing = np.zeros_like(lengths)
    for normalization in ("response", "token"):
        found = run(method, (rewards, labels, channels, nothing), normalization)
        assert not found.advantages.any()
    nothing[0] = 1
    assert not run(method, (rewards, labels, channels, nothing), "token").advantages[1:].any()
    if method_final(method):
        assert not run(method, (rewards, labels, channels, nothing), "token").advantages.any()


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=20)
@given(batch=batches(missing=True))
def test_final_advantages_are_finite_and_normalised(method, batch):
    assume(_comparable(batch))
    found = run(method, batch, "response", **exact(method))
    assert np.isfinite(found.advantages).all()
    if method_final(method) and not method.startswith("gd2po") and found.left_out == 0 and found.advantages.any():
        assert found.advantages.mean() == pytest.approx(0, abs=1e-9)
        assert found.advantages.std(ddof=1) == pytest.approx(1, rel=1e-3)


@given(batches(missing=True))
def test_limits_that_are_gdpo(batch):
    assume(_comparable(batch))
    gdpo = run("gdpo", batch, eps=0.0)
    same = dict.fromkeys(batch[2], 1.0)
    for method, params in (
        ("sa_mrpo", {"gamma": 0.0}),
        ("static_sym", {"weights": same}),
        ("static_asym", {"weights": same}),
        ("dara_sym", {"w_max": 1.0}),
        ("dara_asym", {"w_max": 1.0}),
        ("rvpo", {"kappa": 0.0}),
        ("gd2po_snr", {"snr_threshold": 0.0}),
    ):
        found = run(method, batch, eps=0.0, **params)
        # the mean over channels is the sum over K, which only the 1e-6 in the final normalisation can tell apart
        np.testing.assert_allclose(found.advantages, gdpo.advantages, rtol=1e-4, atol=1e-5, err_msg=method)
    if len(set(gdpo.density.values())) == 1:
        for method in ("dara_sym", "dara_asym"):
            found = run(method, batch, eps=0.0)
            np.testing.assert_allclose(found.advantages, gdpo.advantages, **CLOSE)


@given(batches(binary=True))
def test_saw_with_equal_variation_is_gdpo(batch):
    rewards, labels, channels, lengths = batch
    rewards = np.column_stack([np.roll(rewards[:, 0], shift) for shift in range(len(channels))])
    bounds = dict.fromkeys(channels, (0, 1))
    batch = (rewards, labels, channels, lengths)
    found = run("saw", batch, bounds=bounds)
    np.testing.assert_allclose(found.advantages, run("gdpo", batch).advantages, **CLOSE)


@given(batches(missing=True))
def test_gd2po_without_conflict_is_gdpo(batch):
    assume(_comparable(batch))
    rewards, labels, channels, lengths = batch
    batch = (np.repeat(rewards[:, :1], len(channels), axis=1), labels, channels, lengths)
    assume(_comparable(batch))
    for method in ("gd2po_hard", "gd2po_snr"):
        for order in ("weight_after", "weight_before"):
            for normalization in ("response", "token"):
                found = run(method, batch, normalization, order=order)
                np.testing.assert_allclose(found.advantages, run("gdpo", batch, normalization).advantages, **CLOSE)


@given(batches())
def test_rvpo_approaches_mean_and_minimum(batch):
    a = run("gdpo", batch).channel_advantages
    for kappa, limit in ((1e-12, a.mean(axis=1)), (1e6, a.min(axis=1)), (np.inf, a.min(axis=1))):
        np.testing.assert_allclose(run("rvpo", batch, kappa=kappa).scores, limit, atol=1e-5)
    # on both sides of the switch between the two stable forms
    largest = np.abs(a).max()
    if largest > 0:
        low = run("rvpo", batch, kappa=0.999999 / largest).scores
        high = run("rvpo", batch, kappa=1.000001 / largest).scores
        np.testing.assert_allclose(low, high, atol=1e-5)


def method_final(name):
    from harness.aggregation import get_method

    return get_method(name).final_normalization


def _comparable(batch):
    """At least one group has two responses with a reward."""
    rewards, labels, channels, _ = batch
    if np.isnan(rewards).all():
        return False
    return prepare(rewards, labels, channels=channels).sizes.max() > 1
