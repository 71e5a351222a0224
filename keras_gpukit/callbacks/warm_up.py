"""The linear scaling rule with gradual warm-up, as plain numbers.

Goyal et al. 2017, "Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour",
https://arxiv.org/abs/1706.02677, section 2: a batch k times as large gets a learning rate k times
as large. The rate grows to it from the original rate by a constant increment at each iteration.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WarmUp:
    """The multiplier of the learning rate at each optimizer update.

    Attributes:
        factor: Batch size, divided by the batch size that the base learning rate suits.
        updates: Number of optimizer updates until the factor is reached; 0 starts with it.
    """

    factor: float
    updates: int

    def multiplier(self, update: int) -> float:
        """Returns the multiplier for an update.

        Args:
            update: Number of updates before this one, in the whole training.
        """
        if update >= self.updates:
            return self.factor
        return 1 + (self.factor - 1) * update / self.updates


def updates_in(epochs: float, steps_per_epoch: int, accumulation: int) -> int:
    """Returns the number of optimizer updates in a number of epochs.

    Args:
        epochs: Number of epochs; may be a fraction.
        steps_per_epoch: Batches per epoch.
        accumulation: Number of batches whose gradients are summed for one update.
    """
    return round(epochs * steps_per_epoch / accumulation)
