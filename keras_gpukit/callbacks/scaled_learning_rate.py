"""`ScaledLearningRate`: the learning rate for a larger batch, reached by a warm-up."""

from __future__ import annotations

from typing import Any

import keras

from keras_gpukit.arguments import check_number, check_whole
from keras_gpukit.training.warm_up import WarmUp, updates_in

_Schedule = keras.optimizers.schedules.LearningRateSchedule


class ScaledLearningRate(keras.callbacks.Callback):
    """Scales the learning rate with the batch, and warms it up.

    The linear scaling rule: with k times the batch, k times the learning rate, reached from the
    rate for one batch by equal increments over the first epochs. Goyal et al. 2017, "Accurate,
    Large Minibatch SGD", https://arxiv.org/abs/1706.02677, section 2. The authors found it to hold
    for SGD with momentum up to a batch of 8,192 images; with more, and with adaptive optimizers,
    try it.

    It counts optimizer updates (`optimizer.iterations`), so that training that is resumed, by
    `BackupAndRestore` for example, goes on where it was. With several steps per execution the rate
    changes once in each execution.

    ```python
    with setup.scope():
        model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "mse")
    model.fit(dataset, callbacks=[gpukit.ScaledLearningRate(0.1)])
    ```

    After the warm-up of a number, other callbacks may change the rate, such as
    `ReduceLROnPlateau`. A schedule is evaluated here before each execution: give it to this
    callback, and a number to the optimizer.

    Args:
        base: The learning rate that suits one replica's batch: a number, or a
            `keras.optimizers.schedules.LearningRateSchedule` of optimizer updates.
        factor: The global batch over the batch that `base` suits; None takes the number of
            replicas of the model's strategy.
        warmup_epochs: Over how many epochs the factor is reached; 0 for no warm-up.
        warmup_updates: The same in optimizer updates, which takes precedence; needed where the
            number of steps in an epoch is unknown.

    Attributes:
        warm_up: From the start of `fit` on, the factor and the number of updates in use; None
            before.

    Raises:
        TypeError: If an argument has a wrong type.
        ValueError: If an argument is out of its range; at the start of `fit`, if the optimizer has
            a schedule of its own, or the length of an epoch is needed and unknown.
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
        """Finds out the factor and the number of updates."""
        optimizer = self.model.optimizer
        inner = getattr(optimizer, "inner_optimizer", optimizer)
        # The property gives a schedule's current value, and the config says what it comes from.
        if isinstance(inner.get_config().get("learning_rate"), dict):
            raise ValueError(
                "The optimizer's learning rate is a schedule, which no callback can scale. Give "
                "the schedule to ScaledLearningRate, and a number to the optimizer. Received: "
                f"optimizer={type(inner).__name__} with a LearningRateSchedule"
            )
        factor = self._factor
        if factor is None:
            strategy = self.model.distribute_strategy
            factor = 1 if strategy is None else strategy.num_replicas_in_sync
        self.warm_up = WarmUp(float(factor), self._updates(inner))
        self._settled = False

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Sets the rate for the updates of the execution."""
        # Not in on_train_begin: another callback may restore the optimizer there.
        if self._settled or self.warm_up is None:
            return
        optimizer = self.model.optimizer
        update = int(keras.ops.convert_to_numpy(optimizer.iterations))
        scheduled = isinstance(self._base, _Schedule)
        ended = update >= self.warm_up.updates
        # Training that goes on after its warm-up keeps the rate that it had: other callbacks may
        # have lowered it. The last execution of a warm-up may have ended beyond it.
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
        return updates_in(self._warmup_epochs, steps, accumulation)
