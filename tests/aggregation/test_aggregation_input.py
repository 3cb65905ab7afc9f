"""What may be passed, and what a mistake is told."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch

from harness.aggregation import Scores, aggregate, aggregate_batch, group_filter, method, method_names, prepare

CHANNELS = ["correctness", "format"]
REWARDS = [[1.5, 1], [-3, 0], [3, 0], [3, 1]]
GROUPS = ["a", "a", "b", "b"]
BOUNDS = {"correctness": (-3, 3), "format": (0, 1)}


def run(rewards=REWARDS, groups=GROUPS, name="gdpo", channels=CHANNELS, **params):
    return aggregate(name, rewards, groups, channels=channels, **params)


@pytest.mark.parametrize(
    "rewards",
    [
        np.array(REWARDS, dtype=np.float32),
        np.array(REWARDS, dtype=np.float16),
        np.array(REWARDS, dtype=object),
        torch.tensor(REWARDS, dtype=torch.bfloat16),
        torch.tensor(REWARDS, dtype=torch.float64, requires_grad=True),
        {"correctness": [1.5, -3, 3, 3], "format": [1, 0, 0, 1]},
        {"format": torch.tensor([True, False, False, True]), "correctness": np.array([1.5, -3, 3, 3])},
        pd.DataFrame({"format": [1, 0, 0, 1], "correctness": [1.5, -3, 3, 3]}),
    ],
    ids=["float32", "float16", "object", "bfloat16", "graph", "lists", "tensors", "table"],
)
def test_every_form_of_rewards_gives_the_same(rewards):
    found = run(rewards)
    assert found.advantages.dtype == np.float64
    np.testing.assert_array_equal(found.advantages, run().advantages)


@pytest.mark.parametrize(
    "groups",
    [np.array(GROUPS), pd.Series(GROUPS), (label for label in GROUPS), [("p", 1), ("p", 1), ("p", 2), ("p", 2)],
     torch.tensor([-1, -1, 10**9, 10**9]), np.array([5, 5, -3, -3])],
    ids=["array", "series", "generator", "tuples", "tensor", "negative"],
)  # fmt: skip
def test_every_form_of_labels_gives_the_same(groups):
    np.testing.assert_array_equal(run(groups=groups).advantages, run().advantages)


def test_labels_are_exact():
    found = run([[1, 1], [0, 0], [1, 0], [0, 1]], ["01", "1", "01", "1"])
    assert found.groups == ["01", "1"]
    assert run([[1, 1], [0, 0], [1, 0], [0, 1]], [1, "1", 1, "1"]).groups == [1, "1"]


@pytest.mark.parametrize("name", method_names())
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, torch.bfloat16])
@pytest.mark.parametrize("value", [0.1, 0.2, 1 / 3, 0.7, -1.2, 1e6 / 3, 0.0, 1e-30])
def test_constant_groups_of_any_type_are_inactive(name, kind, value):
    """60 groups of 3; float32 means leave residues of such constants."""
    columns = [np.full(180, value), np.full(180, value / 3)]
    rewards = np.array(columns).T
    if kind is torch.bfloat16:
        rewards = torch.tensor(rewards, dtype=kind)
    elif abs(value) < 1e4:
        rewards = rewards.astype(kind)
    params = {}
    if name in ("saw", "saw_grpo", "sa_mrpo"):
        params["bounds"] = {"correctness": (-1e7, 1e7), "format": (-1e7, 1e7)}
    if name.startswith("static"):
        params["weights"] = {"correctness": 1, "format": 5}
    found = run(rewards, np.repeat(np.arange(60), 3), name, **params)
    assert not found.active.any()
    assert not found.channel_advantages.any()
    assert not found.advantages.any()
    assert set(found.energy.values()) == {0.0}


def test_rounding_is_no_difference_but_a_small_difference_is():
    assert not run([[0.1 + 0.2, 0], [0.3, 0], [1, 1], [0, 0]]).active[0].any()
    assert run([[0.3, 0], [0.3 + 1e-9, 0], [1, 1], [0, 0]]).active[0].tolist() == [True, False]


def test_a_group_of_one_gets_no_advantage():
    found = run([[3, 1], [-3, 0], [2, 1]], ["a", "a", "b"], name="grpo")
    assert found.advantages[2] == 0
    assert found.active.tolist() == [[True, True], [False, False]]
    assert found.density == {"correctness": 0.5, "format": 0.5}


def test_missing_rewards():
    found = run([[1, None], [0, float("nan")], [None, None], [3, 0], [0, 1]], ["a", "a", "a", "b", "b"])
    assert found.missing == {"correctness": 1, "format": 3}
    assert found.left_out == 1
    assert found.advantages[2] == 0
    assert found.density == {"correctness": 1.0, "format": 0.5}
    # a missing reward adds nothing to a summed reward: group a is +-1/2, as if format were not there
    assert run([[1, None], [0, 1], [0, 1], [1, 0]], name="dr_grpo").advantages.tolist() == [0.5, -0.5, 0, 0]


def test_inputs_are_left_alone():
    rewards = np.array(REWARDS)
    before = rewards.copy()
    found = run(rewards)
    found.advantages[:] = 7
    np.testing.assert_array_equal(rewards, before)
    assert rewards.flags.writeable
    rewards[:] = 0


MISTAKES = [
    (
        {"rewards": [[1, np.inf], [0, 0], [1, 1], [0, 0]]},
        r"reward inf of channel 'format' in group 'a' \(response 0\)",
    ),
    ({"rewards": [[1, 0], [0, 0], [-1e200, 1], [0, 0]]}, r"-1e\+200 of channel 'correctness' in group 'b'"),
    ({"rewards": np.zeros((0, 2)), "groups": []}, "batch is empty"),
    ({"rewards": [[None, None]] * 4}, "no response of the batch has a reward on any channel"),
    ({"groups": ["a", "b", "c", "d"]}, "every one of the 4 groups has one response"),
    ({"groups": ["a", "a", "b"]}, "groups has 3 labels for 4 responses"),
    ({"groups": ["a", "a", None, "b"]}, "group label of response 2 is missing"),
    ({"groups": [1.0, 1.0, float("nan"), 2.0]}, "group label of response 2 is missing"),
    ({"groups": ["a", "a", ["b"], "b"]}, r"group label \['b'\] of response 2 is not hashable"),
    ({"groups": [("a", []), 1, 2, 3]}, "of response 0 is not hashable"),
    ({"groups": "aabb"}, "one label per response"),
    ({"groups": 7}, "one label per response"),
    ({"rewards": [1, 0, 1, 0]}, r"shape \(4,\), but 2 channel"),
    ({"rewards": [[1, 0, 0]] * 4}, r"shape \(4, 3\), but 2 channel"),
    ({"rewards": [[1, 0], [1], [0, 0], [1, 1]]}, "not a rectangular array"),
    ({"rewards": [["1", "0"]] * 4}, "not numbers"),
    ({"rewards": np.array([["1", 0]] * 4, dtype=object)}, "text '1'"),
    ({"rewards": [[1j, 0]] * 4}, "not numbers"),
    ({"rewards": {"correctness": [1, 0, 1, 0]}}, "rewards has no channel 'format'"),
    ({"rewards": {"correctness": [1] * 4, "formt": [1] * 4}}, "no channel 'format'; did you mean 'formt'"),
    ({"rewards": {"correctness": [1] * 4, "format": [1] * 4, "x": [1] * 4}}, "rewards has channel 'x'"),
    ({"rewards": {"correctness": [1] * 4, "format": [1] * 3}}, "rewards of channel 'format' has shape"),
    ({"channels": []}, "channels is empty"),
    ({"channels": "format"}, "channels is the string"),
    ({"channels": ["format", "format"]}, "named twice"),
    ({"channels": ["format", 3]}, "channel name 3 is not a string"),
    ({"name": "dara_asim"}, r"unknown method 'dara_asim'; did you mean 'dara_asym'\?"),
    ({"normalization": "tokens"}, r"unknown normalization 'tokens'; did you mean 'token'\?"),
    ({"name": "grpo", "normalization": "batch"}, "unknown normalization 'batch'"),
    ({"normalization": "token"}, "needs lengths"),
    ({"lengths": [1, 2, 3]}, r"lengths has shape \(3,\)"),
    ({"lengths": [1, 2, -3, 4]}, "length -3.0 of response 2"),
    ({"lengths": [1, 2, 3.5, 4]}, "length 3.5 of response 2"),
    ({"lengths": [1, 2, None, 4]}, "length nan of response 2"),
    ({"name": "dara_sym", "wmax": 3}, r"method 'dara_sym' has no parameter 'wmax'; did you mean 'w_max'\?"),
    ({"name": "dr_grpo", "eps": 1}, "method 'dr_grpo' has no parameter 'eps'; valid: none"),
    ({"name": "dara_sym", "w_max": 0.99}, "w_max is 0.99, but it must be at least 1"),
    ({"name": "dara_sym", "w_max": "5"}, "w_max is '5', not a number"),
    ({"name": "dara_sym", "w_max": float("nan")}, "w_max is nan"),
    ({"name": "dara_sym", "tau": -1}, "tau is -1"),
    ({"eps": -1e-6}, "eps is -1e-06"),
    ({"ddof": 2}, "ddof is 2"),
    ({"ddof": True}, "ddof is True"),
    ({"weights": {"correctness": 1}}, "has no entry for channel 'format'"),
    ({"weights": {"correctness": 1, "formt": 1}}, "names channel 'formt'.*did you mean 'format'"),
    ({"weights": [1, 5]}, "give a mapping by channel name"),
    ({"weights": {"correctness": 1, "format": None}}, "weight of channel 'format' is None"),
    ({"weights": {"correctness": 1, "format": -1}}, "weight of channel 'format' is -1"),
    ({"name": "saw"}, "method 'saw' needs the bounds of every channel"),
    ({"name": "saw_grpo"}, "needs the bounds"),
    ({"name": "sa_mrpo"}, "needs the bounds"),
    ({"name": "saw", "bounds": {"correctness": (-3, 3)}}, "bounds of method 'saw' has no entry for channel 'format'"),
    ({"name": "saw", "bounds": {**BOUNDS, "format": (1, 0)}}, r"bounds of channel 'format' are \(1, 0\)"),
    ({"name": "saw", "bounds": {**BOUNDS, "format": 1}}, "not a pair"),
    ({"name": "saw", "bounds": {**BOUNDS, "format": (0, np.inf)}}, "bound of channel 'format' is inf"),
    (
        {"name": "sa_mrpo", "bounds": {**BOUNDS, "correctness": (-3, 2)}},
        r"reward 3.0 of channel 'correctness' in group 'b' \(response 2\) lies outside the declared bounds \(-3, 2\)",
    ),
    ({"name": "sa_mrpo", "bounds": BOUNDS, "gamma": -0.1}, "gamma is -0.1"),
    ({"name": "gd2po_hard", "order": "weigth_after"}, r"unknown order 'weigth_after'; did you mean 'weight_after'\?"),
    ({"name": "gd2po_snr", "snr_threshold": -1}, "snr_threshold is -1"),
    ({"name": "rvpo", "kappa": -1}, "kappa is -1"),
    ({"name": "rvpo", "kappa": "1"}, "kappa is '1'"),
    ({"name": "rvpo", "kappa": [1, 2, 3]}, "a schedule is a pair"),
    ({"name": "rvpo", "kappa": {"start": 1, "stop": 2}}, "exactly the keys start and end"),
    ({"name": "rvpo", "kappa": [0.5, 2], "progress": 1.5}, "progress is 1.5"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES, ids=[message[:40] for _, message in MISTAKES])
def test_mistakes_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        run(**arguments)


def test_a_method_that_answers_wrongly_is_named():
    @method()
    def crooked(batch, *, kind="shape"):
        return batch.rewards if kind == "shape" else np.full(len(batch.rewards), np.nan)

    with pytest.raises(ValueError, match=r"method 'crooked' returned scores of shape \(4, 2\), not \[4\]"):
        run(name=crooked)
    with pytest.raises(ValueError, match="method 'crooked' returned score nan for response 0 of group 'a'"):
        run(name=crooked, kind="nan")


def test_a_method_cannot_change_the_batch():
    @method()
    def careless(batch):
        batch.advantages()[:] = 0
        return Scores(batch.advantages().sum(axis=1))

    with pytest.raises(ValueError, match="read-only"):
        run(name=careless)


def test_one_batch_serves_several_methods():
    batch = prepare(REWARDS, GROUPS, channels=CHANNELS, lengths=[3, 4, 5, 6])
    for name in ("gdpo", "dara_asym", "gdpo"):
        np.testing.assert_array_equal(
            aggregate_batch(name, batch, normalization="token").advantages,
            run(name=name, lengths=[3, 4, 5, 6], normalization="token").advantages,
        )


def test_normalization_has_no_effect_without_a_final_one():
    for name in ("grpo", "dr_grpo", "dvao", "mo_grpo"):
        found = [run(name=name, normalization=kind).advantages for kind in (None, "response", "token")]
        np.testing.assert_array_equal(found[0], found[1])
        np.testing.assert_array_equal(found[0], found[2])


def test_group_filter():
    rewards = [[1, 0], [0, 1], [1, 0], [0, 0], [1, 1], [1, 1], [1, 0]]
    groups = ["c", "c", "b", "b", "a", "a", "z"]
    assert group_filter(rewards, groups, CHANNELS).tolist() == [False, True, False, False]
    assert group_filter(rewards, groups, CHANNELS, mode="any_channel").tolist() == [True, True, False, False]
    # sums that differ by rounding alone are one sum
    assert not group_filter([[0.1, 0.2], [0.3, 0.0]], ["a", "a"], CHANNELS).any()
    # a group without rewards keeps its place and is dropped
    nothing = [[None, None], [None, None], [1, 0], [0, 0]]
    assert group_filter(nothing, ["x", "x", "b", "b"], CHANNELS).tolist() == [False, True]
    with pytest.raises(ValueError, match=r"unknown filter mode 'any_chanel'; did you mean 'any_channel'\?"):
        group_filter(rewards, groups, CHANNELS, mode="any_chanel")


def test_only_numpy_is_imported():
    code = (
        "import sys, harness.aggregation; "
        "print([name for name in ('torch', 'pandas', 'scipy', 'omegaconf', 'harness.config', 'harness.errors') "
        "if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
