"""Lets `fit`, `evaluate` and `predict` of Keras work under a `ParameterServerStrategy`.

Keras 3.12 to 3.15 gives the strategy a dataset that only workers can read, and calls its step on
the coordinator, which the strategy refuses. Here the coordinator reads the dataset and hands each
batch to the next free worker (`tf.distribute.coordinator.ClusterCoordinator`); a batch whose worker
is lost goes to another. All else is Keras' own `fit`: its arguments, callbacks, validation and
history.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

from keras_gpukit.distribute.coordinating.batches import (
    BatchesAhead,
    CoordinatedDataset,
    WorkerStep,
)
from keras_gpukit.distribute.coordinating.counting import add_on_the_server
from keras_gpukit.distribute.repairs.keras_private import trainer_module
from keras_gpukit.errors import WorkerError
from keras_gpukit.records.cluster import Cluster

_AT_ONCE_PER_WORKER = 2
"""A worker has its next batch while it computes one; more would only age the weights."""


def is_coordinated(strategy: Any) -> bool:
    """Whether a strategy trains with parameter servers."""
    import tensorflow as tf

    return isinstance(strategy, tf.distribute.ParameterServerStrategy)


def train_by_coordinator(cluster: Cluster) -> None:
    """Replaces what Keras does with a dataset and a step, for models of such a strategy only."""
    import keras

    trainer = trainer_module()
    at_once = _AT_ONCE_PER_WORKER * len(cluster.addresses["worker"])
    _replace(trainer.TFEpochIterator, "__init__", _reading_all(at_once))
    _replace(trainer.TensorFlowTrainer, "_make_function", _make_function)
    _replace(trainer.TensorFlowTrainer, "make_predict_function", _make_predict_function)
    add_on_the_server(is_coordinated)
    for name in ("fit", "evaluate", "predict"):
        _replace(keras.Model, name, _to_the_end(cluster.addresses["ps"]))


def _replace(owner: Any, name: str, made_from: Callable[[Any], Any]) -> None:
    setattr(owner, name, made_from(getattr(owner, name)))


class _Undistributed:
    """Stands in for a strategy where Keras asks it to distribute a dataset."""

    def experimental_distribute_dataset(self, dataset: Any) -> Any:
        return dataset


def _reading_all(at_once: int) -> Callable[[Any], Any]:
    def made_from(original: Any) -> Any:
        def __init__(self: Any, distribute_strategy: Any = None, *args: Any, **given: Any) -> None:
            if not is_coordinated(distribute_strategy):
                original(self, distribute_strategy, *args, **given)
                return
            original(self, _Undistributed(), *args, **given)
            whole = self._distributed_dataset
            self._distributed_dataset = CoordinatedDataset(whole, at_once, self.steps_per_epoch)

        return __init__

    return made_from


def _make_function(original: Any) -> Any:
    def _make_function(self: Any, step_function: Callable[[Any], Any]) -> Any:
        if not is_coordinated(self.distribute_strategy):
            return original(self, step_function)
        hand_out = _handing_out(self, step_function)
        optimizer = self.optimizer
        if optimizer is not None and not optimizer.built:
            with self.distribute_strategy.scope():  # no worker may make variables
                optimizer.build(self.trainable_variables)

        def function(batches: Any) -> Any:
            if not isinstance(batches, BatchesAhead):  # train_on_batch
                return hand_out(next(iter(batches))).fetch()
            logs = batches.step(hand_out)
            for _ in range(self.steps_per_execution - 1):
                try:
                    logs = batches.step(hand_out)
                except StopIteration:
                    break
            return logs

        return function

    return _make_function


def _make_predict_function(original: Any) -> Any:
    def make_predict_function(self: Any, force: bool = False) -> Any:
        if not is_coordinated(self.distribute_strategy):
            return original(self, force)
        import keras
        import tensorflow as tf

        hand_out = _handing_out(self, self.predict_step)

        def function(batches: list[Any]) -> Any:
            pending = [hand_out(batch) for batch in batches]
            outputs = [keras.tree.map_structure(tf.constant, each.fetch()) for each in pending]
            return keras.tree.map_structure(lambda *parts: tf.concat(parts, axis=0), *outputs)

        self.predict_function = function
        return function

    return make_predict_function


def _handing_out(model: Any, step_function: Callable[[Any], Any]) -> Callable[[Any], WorkerStep]:
    """Returns what has a worker run a step on a batch."""
    import tensorflow as tf

    strategy = model.distribute_strategy
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)  # one for each strategy
    step = model._autoconvert_optionals(step_function)

    @tf.function(reduce_retracing=True, autograph=False)  # type: ignore[untyped-decorator]
    def on_worker(data: Any) -> Any:
        return strategy.run(step, args=(data,))

    return lambda batch: WorkerStep(coordinator.schedule(on_worker, args=(batch,)), coordinator)


_PS = re.compile(r"/job:ps/(?:replica:\d+/)?task:(\d+)")


def _to_the_end(servers: Sequence[str]) -> Callable[[Any], Any]:
    def made_from(original: Any) -> Any:
        @functools.wraps(original)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            import tensorflow as tf

            strategy = getattr(self, "distribute_strategy", None)
            if not is_coordinated(strategy):
                return original(self, *args, **kwargs)
            try:
                result = original(self, *args, **kwargs)
                # Where a callback has ended the epoch early, steps are still under way.
                tf.distribute.coordinator.ClusterCoordinator(strategy).join()
            except tf.errors.UnavailableError as error:
                lost = sorted(set(map(int, _PS.findall(error.message))))
                if not lost:
                    raise
                raise WorkerError(_lost_servers(lost, servers)) from error
            return result

        return call

    return made_from


def _lost_servers(lost: Sequence[int], servers: Sequence[str]) -> str:
    names = ", ".join(f"ps {index} at {servers[index]}" for index in lost)
    return (
        f"Lost contact with {names}, and with it the variables that it held. Its own log says why. "
        "All processes have to be started again; with keras.callbacks.BackupAndRestore they resume "
        "from the last backup."
    )
