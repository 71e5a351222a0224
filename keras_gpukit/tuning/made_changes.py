"""Makes changes in a trial process: wraps Keras' `compile` and `fit` before the model is built."""

from __future__ import annotations

import functools
import inspect
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from keras_gpukit.frameworks.tf_datasets import Dataset, inputs, kind, number, setting
from keras_gpukit.input.pipelines.functions import BATCHES
from keras_gpukit.input.pipelines.rebuilding import changeable, spine, stack
from keras_gpukit.monitoring.script_globals import line_of_script
from keras_gpukit.records.finding import Change
from keras_gpukit.tuning.reading import Readings
from keras_gpukit.tuning.sources import endless
from keras_gpukit.tuning.training_changes import TrainingChange, batch_size_of
from keras_gpukit.tuning.tune_input import tune_input

SEED = 0
INPUT_S = 15.0
"""Seconds to tune an input."""
READ_S = 0.2
NO_END = 10**9


class UnsuitedError(Exception):
    """A change cannot be made, or makes no difference; the message says why."""


@dataclass(eq=False)
class GivenFit:
    """The first `fit` of a script or of `tune`.

    Attributes:
        arguments: Arguments of `fit`, with the defaults, as changed.
        fit: Keras' own method of the model.
        at: Lines of user code that call `compile` and `fit`; None if they are unknown.
        lines: Lines of user code that make the changes.
    """

    model: Any
    arguments: dict[str, Any]
    fit: Callable[..., Any]
    at: dict[str, str | None]
    lines: list[Change] = field(default_factory=list)
    _folder: tempfile.TemporaryDirectory[str] | None = None

    def change(self, changes: Sequence[TrainingChange]) -> None:
        """Makes the parts of changes that concern the data, and checks the others."""
        compiled: dict[str, Any] = {}
        for change in changes:
            compiled |= change.compiled
            if change.variable:
                self.lines.append(Change("", f"export {change.variable}  # before Python starts"))
            if change.policy is not None:
                self._check_policy(change.policy)
            if change.tunes_input:
                self._tune_input()
            if change.batch_size is not None:
                self._batch(change.batch_size)
        if compiled:
            self._add_line("compile", compiled)
        if compiled.get("jit_compile") and not self.model.jit_compile:
            raise UnsuitedError("XLA cannot compile a layer of this model")

    def _add_line(self, method: str, arguments: dict[str, Any]) -> None:
        added = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
        self.lines.append(Change(f"{method}(...)", f"{method}(..., {added})", self.at[method]))

    def _check_policy(self, policy: str) -> None:
        layers = (self.model, *self.model.layers)
        if all(layer.dtype_policy.name != policy for layer in layers):
            raise UnsuitedError("the script sets its own dtype policy")
        line = f'keras.config.set_dtype_policy("{policy}")  # before the model is built'
        self.lines.append(Change("", line))

    def _tune_input(self) -> None:
        tuned = tune_input(self.arguments["x"], seconds=INPUT_S, cache="memory", verbose=0)
        if not tuned.code:
            raise UnsuitedError("no change made the input faster")
        self.lines.append(Change("dataset", tuned.code))
        self.arguments["x"] = tuned.dataset
        import tensorflow as tf

        if not isinstance(tuned.dataset, tf.data.Dataset):
            return
        if any(kind(stage) == "Cache" for stage in changeable(tuned.dataset)):
            # A cache is full after the first epoch only, which may take longer than the trial.
            self._folder = tempfile.TemporaryDirectory(prefix="keras_gpukit-")
            sampled = Readings(self._folder.name, READ_S).ready(tuned.dataset)
            self.arguments["x"] = endless(sampled)

    def _batch(self, size: int) -> None:
        import tensorflow as tf

        now = batch_size_of(self.arguments)
        if isinstance(self.arguments["x"], tf.data.Dataset):
            self.arguments["x"] = with_batches_of(self.arguments["x"], size)
            self.lines.append(Change(f".batch({now})", f".batch({size})"))
        else:
            self.arguments["batch_size"] = size
            self._add_line("fit", {"batch_size": size})
        if self.arguments["steps_per_epoch"]:
            steps = self.arguments["steps_per_epoch"] * (now or size) // size
            self.arguments["steps_per_epoch"] = max(steps, 1)


def with_batches_of(dataset: Dataset, size: int) -> Dataset:
    """Returns a pipeline whose last stage that batches makes batches of another size."""
    above: list[Dataset] = []
    for stage in spine(dataset):
        if kind(stage) in BATCHES:
            break
        above.append(stage)
    parallel = number(stage, "num_parallel_calls") if kind(stage) == "ParallelBatch" else None
    changed = inputs(stage)[0].batch(
        size, bool(setting(stage, "drop_remainder")), num_parallel_calls=parallel
    )
    for stage in reversed(above):
        # Stages that are made again, since the shape of a batch may be a part of theirs.
        if kind(stage) == "Prefetch":
            changed = changed.prefetch(number(stage, "buffer_size"))
        elif kind(stage) == "Repeat":
            changed = changed.repeat(number(stage, "count"))
        elif kind(stage) == "Options":
            changed = changed.with_options(stage.options())
        else:
            changed = stack(changed, [stage])
    return changed


def make_changes(changes: Sequence[TrainingChange], on_fit: Callable[[GivenFit], None]) -> None:
    """Makes changes to what this process trains; call it once Keras is imported.

    Weights, shuffles and dropout start from the same seed in each process, unless the script sets
    its own.
    """
    import keras

    keras.utils.set_random_seed(SEED)
    compiled: dict[str, Any] = {}
    for change in changes:
        compiled |= change.compiled
        if change.policy is not None:
            keras.config.set_dtype_policy(change.policy)
    at: dict[str, str | None] = {"compile": None, "fit": None}
    compile_, fit = keras.Model.compile, keras.Model.fit

    @functools.wraps(compile_)
    def changed_compile(model: Any, *args: Any, **kwargs: Any) -> Any:
        at["compile"] = line_of_script()
        given = inspect.signature(compile_).bind(model, *args, **kwargs)
        given.arguments.update(compiled)
        return compile_(*given.args, **given.kwargs)

    @functools.wraps(fit)
    def measured_fit(model: Any, *args: Any, **kwargs: Any) -> None:
        at["fit"] = line_of_script()
        given = inspect.signature(fit).bind(model, *args, **kwargs)
        given.apply_defaults()
        arguments = {name: value for name, value in given.arguments.items() if name != "self"}
        keras.Model.compile, keras.Model.fit = compile_, fit
        on_fit(GivenFit(model, arguments, functools.partial(fit, model), at))

    keras.Model.compile, keras.Model.fit = changed_compile, measured_fit
