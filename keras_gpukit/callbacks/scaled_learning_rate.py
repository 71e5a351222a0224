"""`ScaledLearningRate`: a learning rate for larger batches, reached by a warm-up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras

from keras_gpukit.arguments import check_number, check_whole

_Schedule = keras.optimizers.schedules.LearningRateSchedule


class ScaledLearningRate(keras.callbacks.Callback):
    """Scales the learning rate with the batch size, and warms it up.

    The linear scaling rule: a batch k times as large gets a learning rate k times as large. The
    rate grows to it from the base rate by equal increments over the first epochs. Goyal et al.
    2017, "Accurate, Large Minibatch SGD", https://arxiv.org/abs/1706.02677, section 2. The authors
    found that it holds for SGD with momentum up to a batch of 8,192 images. Try out whether it
    suits larger batches and adaptive optimizers.

    The warm-up follows the number of optimizer updates (`optimizer.iterations`), so resumed
    training, for example by `BackupAndRestore`, continues where it was. With several steps per
    execution the rate changes once per execution.

    ```python
    with setup.scope():
        model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "mse")
    model.fit(dataset, callbacks=[gpukit.ScaledLearningRate(0.1)])
    ```

    If `base` is a number, other callbacks such as `ReduceLROnPlateau` may change the rate after the
    warm-up. Pass a schedule to this callback, which evaluates it before each execution, and a
    number to the optimizer.

    Args:
        base: Learning rate that suits the batch of one replica: a number, or a
            `keras.optimizers.schedules.LearningRateSchedule` of optimizer updates.
        factor: Global batch size, divided by the batch size that `base` suits; None stands for the
            number of replicas of the model's strategy.
        warmup_epochs: Number of epochs until the factor is reached; 0 for no warm-up.
        warmup_updates: Number of optimizer updates until the factor is reached; replaces
            `warmup_epochs`. It is needed if the number of steps per epoch is unknown.

    Attributes:
        warm_up: Factor and number of updates in use, from the start of `fit` on; None before.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If an argument is out of range. At the start of `fit`, if the optimizer has a
            schedule of its own, or if the number of steps per epoch is needed and unknown.
    """

    def __init__(
        self,
        base: Any,
        *,
        factor: float | None = None,
        warmup_epochs: float = 5,
        warmup_updates: int | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(base, _Schedule):
            check_number(
                "base", base, "a positive number or a LearningRateSchedule", lambda v: v > 0
            )
        check_number("factor", factor, "a positive number", lambda v: v > 0, optional=True)
        check_number("warmup_epochs", warmup_epochs, "a number from 0 on", lambda v: v >= 0)
        if warmup_updates != 0 or isinstance(warmup_updates, bool):
            check_whole("warmup_updates", warmup_updates, optional=True)
        self.warm_up: WarmUp | None = None
        self._base = base
        self._factor = factor
        self._warmup_epochs = warmup_epochs
        self._warmup_updates = warmup_updates
        self._settled = False

    def on_train_begin(self, logs: Any = None) -> None:
        """Determines the factor and the number of updates."""
        optimizer = self.model.optimizer
        inner = getattr(optimizer, "inner_optimizer", optimizer)
        # The property returns a schedule's current value. Only the config shows the schedule.
        if isinstance(inner.get_config().get("learning_rate"), dict):
            raise ValueError(
                "The optimizer's learning rate is a schedule, which no callback can scale. Give "
                "the schedule to ScaledLearningRate, and a number to the optimizer. Received: "
                f"optimizer={type(inner).__name__} with a LearningRateSchedule"
            )
        factor = self._factor
        if factor is None:
            factor = self.model.distribute_strategy.num_replicas_in_sync
        self.warm_up = WarmUp(float(factor), self._updates(inner))
        self._settled = False

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Sets the learning rate for the updates of the next execution."""
        # Not done in on_train_begin, where another callback may still restore the optimizer.
        if self._settled or self.warm_up is None:
            return
        optimizer = self.model.optimizer
        update = int(keras.ops.convert_to_numpy(optimizer.iterations))
        scheduled = isinstance(self._base, _Schedule)
        ended = update >= self.warm_up.updates
        # Training that is resumed after its warm-up keeps its rate, which other callbacks may have
        # lowered. The last execution of a warm-up may have ended some updates after it.
        long_ended = update > self.warm_up.updates + self.model.steps_per_execution
        if scheduled or not long_ended:
            base = float(self._base(update)) if scheduled else float(self._base)
            optimizer.learning_rate = base * self.warm_up.multiplier(update)
        self._settled = ended and not scheduled

    def _updates(self, optimizer: Any) -> int:
        if self._warmup_updates is not None:
            return self._warmup_updates
        if not self._warmup_epochs:
            return 0
        steps = (self.params or {}).get("steps")
        if steps is None:
            raise ValueError(
                "The number of steps in an epoch is unknown, so the warm-up needs its length in "
                "optimizer updates: give warmup_updates. Received: "
                f"warmup_epochs={self._warmup_epochs!r}"
            )
        accumulation = optimizer.gradient_accumulation_steps or 1
        updates: float = self._warmup_epochs * steps / accumulation
        return round(updates)


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
        """Returns the multiplier after a number of updates of the whole training."""
        if update >= self.updates:
            return self.factor
        return 1 + (self.factor - 1) * update / self.updates
