"""The reward function inside verl: every channel and every kind of failure, from ``harness.rewards.batch.score_batch``.

Two doors. :func:`compute_score` is verl's ``reward.custom_reward_function`` for anyone who uses verl by hand;
:class:`ChannelRewardManager` is what the engine uses: it also knows how many tokens the response has.
"""

from __future__ import annotations

from typing import Any

from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase

from harness.rewards.batch import score_batch


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: dict[str, Any] | None = None,
    *,
    length_limit: int | None = None,
    max_response_tokens: int | None = None,
    response_tokens: int | None = None,
    **_unused: Any,
) -> dict[str, Any]:
    """Score of one response: ``score`` (the sum of the channels), each channel, ``failure/<kind>`` as 0 or 1.

    data_source: the task (``tool_calling``, ``tool_calling_three``, ``maths``). length_limit: see ``score_batch``;
    give it with ``reward.custom_reward_function.reward_kwargs``. response_tokens: needed for maths.
    """
    lengths = None if response_tokens is None else [int(response_tokens)]
    scores = score_batch(
        data_source,
        [solution_str],
        [ground_truth],
        lengths,
        length_limit=length_limit,
        max_response_tokens=max_response_tokens,
    )
    channels = {name: float(values[0]) for name, values in scores.channels.items()}
    result: dict[str, Any] = {"score": sum(channels.values()), **channels}
    result.update({f"failure/{kind}": float(flags[0]) for kind, flags in scores.failures.items()})
    if response_tokens is not None:
        result["response_tokens"] = int(response_tokens)
    return result


class ChannelRewardManager(RewardManagerBase):
    """``reward.reward_manager.source=importlib``; decodes the valid response tokens and scores the text."""

    def __init__(
        self,
        config: Any,
        tokenizer: Any,
        compute_score: Any,
        reward_router_address: str | None = None,
        reward_model_tokenizer: Any = None,
    ) -> None:
        super().__init__(config, tokenizer, compute_score)
        section = config.harness
        self.length_limit = section.get("length_limit")
        self.max_response_tokens = int(config.data.max_response_length)

    async def run_single(self, data: Any) -> dict[str, Any]:
        item = data[-1:][0]  # of several outputs the last one is scored
        tokens = item.batch["responses"]
        count = int(item.batch["attention_mask"][-tokens.shape[-1] :].sum())
        text = self.tokenizer.decode(tokens[:count], skip_special_tokens=True)
        result = compute_score(
            item.non_tensor_batch["data_source"],
            text,
            item.non_tensor_batch["reward_model"]["ground_truth"],
            length_limit=self.length_limit,
            max_response_tokens=self.max_response_tokens,
            response_tokens=count,
        )
        return {"reward_score": result["score"], "reward_extra_info": result}
