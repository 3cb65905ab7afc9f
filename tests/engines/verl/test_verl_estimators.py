"""The estimators: the numbers are those of aggregate(), padding and unscored rows stay out, mistakes are named."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from verl_cases import infos_of

from harness import aggregation
from harness.engines.verl.estimators import ChannelBatch, channels_of_batch, estimator_name, make_estimator
from harness.engines.verl.metrics import aggregation_metrics, response_metrics

CHANNELS = ["correctness", "format"]
BOUNDS = {"correctness": [-3.0, 3.0], "format": [0.0, 1.0]}


def parameters_of(method: str) -> dict:
    parameters = aggregation.method_parameters(method)
    if "bounds" in parameters:
        parameters["bounds"] = BOUNDS
    if method in ("static_sym", "static_asym"):
        parameters["weights"] = {"correctness": 1.0, "format": 5.0}
    return parameters


def config_of(method: str, **more) -> dict:
    return {
        "reward_keys": CHANNELS,
        "normalization": "token",
        "method_parameters": parameters_of(method),
        "use_kl_in_reward": False,
        **more,
    }


def make_batch(seed: int, groups: int = 6, size: int = 4, width: int = 9):
    generator = np.random.default_rng(seed)
    count = groups * size
    channels = {
        "correctness": generator.choice([-3.0, -1.0, 0.5, 3.0], count).tolist(),
        "format": generator.choice([0.0, 1.0], count, p=[0.8, 0.2]).tolist(),
    }
    lengths = generator.integers(1, width + 1, count)
    labels = [f"g{number // size}" for number in range(count)]
    order = generator.permutation(count)
    mask = (torch.arange(width)[None, :] < torch.as_tensor(lengths)[:, None]).long()
    return channels, labels, lengths, mask, order


def estimate(method, infos, labels, mask, config, padding=None, sessions=None, token_rewards=None, progress=0.0):
    count = len(infos)
    batch = ChannelBatch(
        infos=infos,
        padding=np.zeros(count, dtype=bool) if padding is None else np.asarray(padding),
        sessions=[(f"{labels[row]}_{row}", 0) for row in range(count)] if sessions is None else sessions,
        progress=progress,
    )
    if token_rewards is None:
        token_rewards = torch.zeros(mask.shape)
        for row, info in enumerate(infos):
            token_rewards[row, max(0, int(mask[row].sum()) - 1)] = info.get("score", 0.0)
    with channels_of_batch(batch):
        advantages, returns = make_estimator(method)(
            token_level_rewards=token_rewards,
            response_mask=mask,
            config=config,
            index=np.array(labels, dtype=object),
        )
    assert torch.equal(advantages, returns)
    return advantages, batch


@pytest.mark.parametrize("method", aggregation.method_names())
@pytest.mark.parametrize("normalization", ["token", "response"])
def test_each_method_gives_the_numbers_of_aggregate(method, normalization):
    channels, labels, lengths, mask, order = make_batch(3)
    shuffled = {name: [values[row] for row in order] for name, values in channels.items()}
    labels, lengths, mask = [labels[row] for row in order], lengths[order], mask[torch.as_tensor(order)]
    config = config_of(method, normalization=normalization)
    advantages, _ = estimate(method, infos_of(shuffled), labels, mask, config)
    expected = aggregation.aggregate(
        method,
        shuffled,
        labels,
        channels=CHANNELS,
        lengths=lengths,
        normalization=normalization,
        **parameters_of(method),
    ).advantages
    assert np.abs(expected).max() > 0
    for row, length in enumerate(lengths):
        assert torch.equal(advantages[row, length:], torch.zeros(mask.shape[1] - length))
        assert torch.equal(advantages[row, :length], torch.full((int(length),), np.float32(expected[row])))


@given(seed=st.integers(0, 10**6), pads=st.integers(1, 5))
def test_padding_rows_change_nothing_and_get_nothing(seed, pads):
    channels, labels, _, mask, _ = make_batch(seed)
    infos = infos_of(channels)
    alone, _ = estimate("dara_asym", infos, labels, mask, config_of("dara_asym"))
    zero = torch.zeros((pads, mask.shape[1]), dtype=mask.dtype)
    together, batch = estimate(
        "dara_asym",
        [*infos, *[dict(infos[0]) for _ in range(pads)]],
        [*labels, *["pad"] * pads],
        torch.cat([mask, zero]),
        config_of("dara_asym"),
        padding=[False] * len(infos) + [True] * pads,
    )
    assert torch.equal(together[: len(infos)], alone)
    assert not together[len(infos) :].any()
    assert batch.result is not None
    assert len(batch.result.advantages) == len(infos)


def test_of_several_outputs_the_last_is_scored_and_all_share_its_advantage():
    infos = infos_of({"correctness": [9.0, 3.0, -3.0], "format": [9.0, 1.0, 0.0]})
    sessions = [("a_0", 0), ("a_0", 1), ("a_1", 0)]
    mask = torch.ones((3, 2), dtype=torch.long)
    advantages, batch = estimate("gdpo", infos, ["a", "a", "a"], mask, config_of("gdpo"), sessions=sessions)
    assert batch.channels["correctness"].tolist() == [3.0, -3.0]
    assert torch.equal(advantages[0], advantages[1])
    assert advantages[0, 0] > 0 > advantages[2, 0]


@pytest.mark.parametrize(("method", "sees"), [("grpo", True), ("dr_grpo", True), ("gdpo", False), ("dara_sym", False)])
def test_the_kl_penalty_reaches_the_summed_reward_alone(method, sees):
    channels, labels, lengths, mask, _ = make_batch(5)
    infos = infos_of(channels)
    penalty = np.random.default_rng(1).uniform(0, 0.5, len(infos))
    token_rewards = torch.zeros(mask.shape, dtype=torch.float64)
    for row, info in enumerate(infos):
        token_rewards[row, lengths[row] - 1] += info["score"]
        token_rewards[row, 0] -= penalty[row]
    config = config_of(method, use_kl_in_reward=True)
    advantages, batch = estimate(method, infos, labels, mask, config, token_rewards=token_rewards)
    plain, _ = estimate(method, infos, labels, mask, config_of(method))
    if not sees:
        assert torch.equal(advantages, plain)
        assert batch.penalty is None
        return
    np.testing.assert_allclose(batch.penalty, -penalty, atol=1e-6)
    total = np.array([info["score"] for info in infos]) - penalty
    expected = aggregation.aggregate(method, total[:, None], labels, channels=["sum"], **parameters_of(method))
    np.testing.assert_allclose(advantages[:, 0].numpy(), expected.advantages, rtol=1e-6, atol=1e-6)
    assert not torch.allclose(advantages, plain, atol=1e-3)


@pytest.mark.parametrize(("progress", "kappa"), [(0.0, 0.5), (1.0, 2.0)])
def test_a_schedule_follows_the_training_and_bounds_come_from_the_configuration(progress, kappa):
    channels, labels, _, mask, _ = make_batch(8)
    infos = infos_of(channels)
    schedule = {"kappa": [0.5, 2.0]}
    scheduled, _ = estimate(
        "rvpo", infos, labels, mask, config_of("rvpo", method_parameters=schedule), progress=progress
    )
    fixed, _ = estimate("rvpo", infos, labels, mask, config_of("rvpo", method_parameters={"kappa": kappa}))
    assert torch.equal(scheduled, fixed)
    given, _ = estimate("saw", infos, labels, mask, config_of("saw"))
    found, _ = estimate("saw", infos, labels, mask, config_of("saw", method_parameters={}, reward_bounds=BOUNDS))
    assert torch.equal(given, found)


def test_names_that_verl_takes_get_a_prefix():
    assert [estimator_name(name) for name in ("grpo", "gdpo", "dara_asym")] == [
        "harness_grpo",
        "harness_gdpo",
        "dara_asym",
    ]


def test_without_the_trainer_the_message_names_the_settings():
    with pytest.raises(RuntimeError, match=r"trainer\.v1\.trainer_mode=sync"):
        make_estimator("dara_asym")(torch.zeros(2, 2), torch.ones(2, 2), config={}, index=["a", "a"])


@pytest.mark.parametrize(
    ("infos", "config", "message"),
    [
        ([{"score": 1.0, "correctness": 1.0}] * 4, None, r"no channel 'format' for 4 of 4.*keys found: correctness"),
        ([{}] * 4, None, r"no channel 'correctness' for 4 of 4.*keys found: none"),
        ([{"correctness": 1.0, "format": "yes"}] * 4, None, r"'format' holds 'yes'"),
        ([{"correctness": float("inf"), "format": 0.0}] * 4, None, r"'correctness' is infinite for 4 of 4"),
        ([{"correctness": 1.0, "format": 0.0}] * 4, {}, r"algorithm\.reward_keys is not set.*correctness, format"),
    ],
)
def test_a_broken_reward_function_is_named(infos, config, message):
    mask = torch.ones((4, 2), dtype=torch.long)
    with pytest.raises(ValueError, match=message):
        estimate("dara_asym", infos, ["a", "a", "b", "b"], mask, config_of("dara_asym") if config is None else config)


def test_a_missing_reward_is_counted_and_left_out():
    infos = infos_of({"correctness": [3.0, -3.0, 1.0, None], "format": [1.0, 0.0, 0.0, 1.0]})
    mask = torch.ones((4, 2), dtype=torch.long)
    advantages, batch = estimate("gdpo", infos, ["a"] * 4, mask, config_of("gdpo"))
    assert torch.isfinite(advantages).all()
    metrics = aggregation_metrics(batch.result)
    assert (metrics["missing/correctness"], metrics["missing/format"]) == (1.0, 0.0)
    of_responses = response_metrics(infos, batch.channels, batch.lengths)
    assert of_responses["reward/correctness"] == pytest.approx(1 / 3)
    assert of_responses["reward/format"] == 0.5
    assert of_responses["response_length"] == 2.0
    assert of_responses["responses_in_step"] == 4.0
