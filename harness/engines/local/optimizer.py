"""AdamW for a policy of a few tensors.

The same numbers as ``torch.optim.AdamW``, whose first use imports PyTorch's compiler: two seconds in every worker.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor


class AdamW:
    """Adam with decoupled weight decay (arXiv 1711.05101, algorithm 2). ``learning_rate`` may be set between steps."""

    def __init__(
        self,
        parameters: Iterable[Tensor],
        learning_rate: float,
        weight_decay: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        self.parameters = list(parameters)
        self.learning_rate, self.weight_decay, self.betas, self.eps = learning_rate, weight_decay, betas, eps
        self.steps = 0
        self.means = [torch.zeros_like(parameter) for parameter in self.parameters]
        self.squares = [torch.zeros_like(parameter) for parameter in self.parameters]

    def zero_gradients(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """One update from the parameters' gradients; a parameter without one keeps still."""
        self.steps += 1
        first, second = self.betas
        rate = self.learning_rate / (1.0 - first**self.steps)
        scale = math.sqrt(1.0 - second**self.steps)
        for parameter, mean, square in zip(self.parameters, self.means, self.squares, strict=True):
            gradient = parameter.grad
            if gradient is None:
                continue
            parameter.mul_(1.0 - self.learning_rate * self.weight_decay)
            mean.lerp_(gradient, 1.0 - first)
            square.mul_(second).addcmul_(gradient, gradient, value=1.0 - second)
            parameter.addcdiv_(mean, square.sqrt().div_(scale).add_(self.eps), value=-rate)

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self.steps, "means": self.means, "squares": self.squares}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.steps = int(state["steps"])
        for target, source in zip(self.means + self.squares, state["means"] + state["squares"], strict=True):
            target.copy_(source)
