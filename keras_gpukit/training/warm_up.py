"""The linear scaling rule with gradual warm-up, as plain numbers.

Goyal et al. 2017, "Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour",
https://arxiv.org/abs/1706.02677, section 2: with k times the batch, k times the learning rate,
reached from the rate of one batch by a constant increment at each iteration.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WarmUp:
    """By how much the learning rate is multiplied at each optimizer update.

    Attributes:
        factor: The batch over the batch that the base learning rate suits.
        updates: Over how many optimizer updates the factor is reached; 0 begins with it.
    """

    factor: float
    updates: int

    def multiplier(self, update: int) -> float:
        """Returns the multiplier for an update.

        Args:
            update: How many updates there were before it, in the whole training.
        """
        if update >= self.updates:
            return self.factor
        return 1 + (self.factor - 1) * update / self.updates


def updates_in(epochs: float, steps_per_epoch: int, accumulation: int) -> int:
    """Returns how many optimizer updates a number of epochs has.

    Args:
        epochs: May be a fraction.
        steps_per_epoch: Batches in an epoch.
        accumulation: Batches whose gradients one update sums.
    """
    return round(epochs * steps_per_epoch / accumulation)
