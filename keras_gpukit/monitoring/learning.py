"""Follows the losses of a `fit`, and whether its weights change."""

from __future__ import annotations

import math
import sys
import time
from dataclasses import replace
from typing import Any

from keras_gpukit.errors import Guard
from keras_gpukit.input.wait.calls import accumulated
from keras_gpukit.monitoring.call_steps import CallSteps
from keras_gpukit.monitoring.epoch_memory import Pace
from keras_gpukit.records.event import Learning, NonFinite

MOST_VARIABLES = 8
"""Number of variables that are read, the smallest ones. Reading one waits for the device, which is
done after the first step and after epochs only."""
_SCALE = "dynamic_scale"  # the factor of Keras' dynamic loss scaling
_UPDATES = "iterations"  # the updates that an optimizer has applied
LARGEST_ELEMENTS = 2**16
"""Size of the largest variable that is read."""


class LearningWatch:
    """Follows a `fit` by the logs that Keras gives to callbacks, and by a few weights.

    Keras converts the logs to numbers for all callbacks, so looking at them does not wait for the
    device. Within an epoch Keras' losses are means of its steps so far: once one is NaN it stays so
    until the epoch ends. A loss that is finite at the end of a later epoch has recovered.
    """

    def __init__(self, steps: CallSteps, epoch_steps: int | None = None) -> None:
        self._steps = steps
        self._record = Learning(steps_asked=epoch_steps)
        self._bad: dict[str, NonFinite] = {}
        self._names: tuple[str, ...] | None = None
        self._epoch_began_at = steps.step
        self._variables: list[Any] = []
        self._values: list[bytes] = []
        self._began_at = 0
        self._updates_before: float | None = None
        self._pace = Pace()
        self._guard = Guard("Reading weights", "Whether they change is unknown.")
        steps.on_first_step(lambda: None, self._first_step_ended)

    def learning_record(self) -> Learning:
        """Returns what is known so far. A loss of training comes before one of validation."""
        by_kind = sorted(self._bad.values(), key=lambda loss: loss.name.startswith("val_"))
        return replace(self._record, non_finite=next(iter(by_kind), None))

    def batch_ended(self, batch: int, logs: Any) -> None:
        """Looks at the losses of a step, whose last batch has a number from 0 in its epoch."""
        names = self._names
        if names is None:
            named = logs if isinstance(logs, dict) else {}
            names = self._names = tuple(name for name in named if "loss" in name)
        for name in names:
            value = logs.get(name)
            if type(value) is float and value - value != 0.0:  # NaN for NaN and infinity
                self._names = tuple(other for other in names if other != name)
                last = self._epoch_began_at + batch + 1
                first = last - min(self._steps.model.steps_per_execution, batch + 1) + 1
                self._note(name, value, first, last)
                self._write()

    def epoch_ended(self, logs: Any) -> None:
        """Looks at the losses of an epoch and, unless weights are known to change, at weights."""
        self._record = replace(self._record, epochs=self._record.epochs + 1)
        self._note_end_of_data()
        for name, value in (logs or {}).items():
            if "loss" not in name or not isinstance(value, float):
                continue
            if math.isfinite(value):
                self._bad.pop(name, None)
            elif name not in self._bad:
                self._note(name, value)
        self._names = None
        self._epoch_began_at = self._steps.step
        self._note_loss((logs or {}).get("loss"))
        if self._variables and self._guard.failed_because is None:
            with self._guard:
                self._read()

    def _note_end_of_data(self) -> None:
        known, steps = self._record, self._steps.step - self._epoch_began_at
        missing = (known.steps_asked or 0) - steps
        if missing > 0 and not self._steps.model.stop_training:
            self._record = replace(
                known,
                cut_short=known.cut_short + 1,
                steps_missing=known.steps_missing + missing,
            )

    def _note(self, name: str, value: float, *steps: int) -> None:
        kind = "NaN" if math.isnan(value) else "infinite"
        epoch = self._steps.epoch or 1
        self._bad.setdefault(name, NonFinite(name, kind, epoch, *steps))

    def _note_loss(self, loss: Any) -> None:
        if isinstance(loss, float):
            known = self._record
            lowest = loss if known.lowest_loss is None else min(loss, known.lowest_loss)
            highest = loss if known.highest_loss is None else max(loss, known.highest_loss)
            self._record = replace(known, lowest_loss=lowest, highest_loss=highest)

    def _first_step_ended(self) -> None:
        if sys.exc_info()[0] is not None or self._steps.frame.over:
            return  # after an error, the device may be unusable
        with self._guard:
            model = self._steps.model
            trainable = model.trainable_variables
            small = [
                variable
                for variable in trainable or model.weights
                if math.prod(variable.shape) <= LARGEST_ELEMENTS
            ]
            small.sort(key=lambda variable: math.prod(variable.shape))
            self._variables = small[:MOST_VARIABLES]
            self._values, _ = _read(self._variables)
            # The step that has just ended is counted once this has returned.
            self._began_at = self._steps.step + model.steps_per_execution
            self._updates_before = _number(model.optimizer, _UPDATES)
            self._record = replace(
                self._record,
                trainable=len(trainable),
                read=len(self._variables),
                first_loss_scale=_number(model.optimizer, _SCALE),
                accumulation=accumulated(model) or 1,
            )

    def _read(self) -> None:
        """Reads the weights until they are known to change, and again once a loss is not finite."""
        changed, optimizer = self._record.changed, self._steps.model.optimizer
        scale = _number(optimizer, _SCALE)
        is_settled = changed and scale is None and not self._bad
        if is_settled or not self._pace.is_due(self._record.epochs):
            return
        began_s = time.perf_counter()
        finite = self._record.finite
        if not changed or self._bad:
            values, finite = _read(self._variables)
            changed = changed or values != self._values
        updates, before = _number(optimizer, _UPDATES), self._updates_before
        self._record = replace(
            self._record,
            changed=changed,
            finite=finite,
            steps=self._steps.step - self._began_at,
            updates=None if updates is None or before is None else int(updates - before),
            learning_rate=_number(optimizer, "learning_rate"),
            loss_scale=scale,
        )
        self._pace.note(began_s)
        self._write()

    def _write(self) -> None:
        self._steps.output.write_record("learning", self.learning_record())


def _read(variables: list[Any]) -> tuple[list[bytes], bool]:
    """Returns the contents of variables, and whether all of their numbers are finite."""
    import keras
    import numpy as np

    arrays = [keras.ops.convert_to_numpy(variable) for variable in variables]
    finite = all(bool(np.isfinite(array.astype("float64")).all()) for array in arrays)
    return [array.tobytes() for array in arrays], finite


def _number(optimizer: Any, name: str) -> float | None:
    """Returns an attribute of an optimizer; None without it."""
    import keras

    value = getattr(optimizer, name, None)
    return None if value is None else float(keras.ops.convert_to_numpy(value))
