"""Lets `fit`, `evaluate` and `predict` of Keras work under a `ParameterServerStrategy`.

Keras 3.12 to 3.15 gives the strategy a dataset that only workers can read, and calls its step on
the coordinator, which the strategy refuses. Here the coordinator reads the dataset and hands each
batch to the next free worker (`tf.distribute.coordinator.ClusterCoordinator`); a batch whose worker
is lost goes to another. All else is Keras' own `fit`: its arguments, callbacks, validation and
history.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from keras_gpukit.distribute.coordinating.batches import BatchesAhead, CoordinatedDataset
from keras_gpukit.distribute.coordinating.counting import add_on_the_server
from keras_gpukit.distribute.coordinating.worker_steps import Coordinator, Workers, WorkerStep
from keras_gpukit.distribute.repairs.keras_private import trainer_module
from keras_gpukit.errors import WorkerError
from keras_gpukit.records.cluster import Cluster

_AT_ONCE_PER_WORKER = 2
"""A worker has its next batch while it computes one; more would only age the weights."""


def is_coordinated(strategy: Any) -> bool:
    """Whether a strategy trains with parameter servers."""
    import tensorflow as tf

    return isinstance(strategy, tf.distribute.ParameterServerStrategy)


def train_by_coordinator(strategy: Any, cluster: Cluster, timeout_s: float) -> None:
    """Replaces what Keras does with a dataset and a step, for models of such a strategy only.

    Args:
        strategy: The `tf.distribute.ParameterServerStrategy` of this process.
        cluster: What it is over.
        timeout_s: How long all workers may be gone.
    """
    import keras
    import tensorflow as tf

    workers = cluster.addresses["worker"]
    coordinator = Coordinator(
        tf.distribute.coordinator.ClusterCoordinator(strategy), Workers(workers, timeout_s)
    )
    trainer = trainer_module()
    at_once = _AT_ONCE_PER_WORKER * len(workers)
    _replace(trainer.TFEpochIterator, "__init__", _reading_all(coordinator, at_once))
    _replace(trainer.TensorFlowTrainer, "_make_function", _making(coordinator))
    predicting = _making_predictions(coordinator)
    _replace(trainer.TensorFlowTrainer, "make_predict_function", predicting)
    add_on_the_server(is_coordinated)
    calls = ("fit", "evaluate", "predict", "train_on_batch", "test_on_batch", "predict_on_batch")
    for name in calls:
        _replace(keras.Model, name, _by_itself(coordinator, cluster.addresses["ps"]))


def _replace(owner: Any, name: str, made_from: Callable[[Any], Any]) -> None:
    setattr(owner, name, made_from(getattr(owner, name)))


class _Undistributed:
    """Stands in for a strategy where Keras asks it to distribute a dataset."""

    def experimental_distribute_dataset(self, dataset: Any) -> Any:
        return dataset


def _reading_all(coordinator: Coordinator, at_once: int) -> Callable[[Any], Any]:
    def made_from(original: Any) -> Any:
        def __init__(self: Any, distribute_strategy: Any = None, *args: Any, **given: Any) -> None:
            if not is_coordinated(distribute_strategy):
                original(self, distribute_strategy, *args, **given)
                return
            original(self, _Undistributed(), *args, **given)
            steps, together = self.steps_per_epoch, self.steps_per_execution
            # An execution is not divided: Keras ends the epoch with the one that reaches its steps.
            taken = steps and math.ceil(steps / together) * together
            whole = self._distributed_dataset
            self._distributed_dataset = CoordinatedDataset(whole, at_once, taken)
            # Keras calls this once an epoch's loop is over. Where a callback has ended the epoch
            # early, steps are still under way, and would count in what comes next.
            self.tf_sync = coordinator.finish

        return __init__

    return made_from


def _making(coordinator: Coordinator) -> Callable[[Any], Any]:
    def made_from(original: Any) -> Any:
        def _make_function(self: Any, step_function: Callable[[Any], Any]) -> Any:
            if not is_coordinated(self.distribute_strategy):
                return original(self, step_function)
            hand_out = _HandingOut(self, step_function, coordinator)
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

    return made_from


def _making_predictions(coordinator: Coordinator) -> Callable[[Any], Any]:
    def made_from(original: Any) -> Any:
        def make_predict_function(self: Any, force: bool = False) -> Any:
            if not is_coordinated(self.distribute_strategy):
                return original(self, force)
            import keras
            import tensorflow as tf

            hand_out = _HandingOut(self, self.predict_step, coordinator)

            def function(batches: list[Any]) -> Any:
                pending = [hand_out(batch) for batch in batches]
                outputs = [keras.tree.map_structure(tf.constant, each.fetch()) for each in pending]
                return keras.tree.map_structure(lambda *parts: tf.concat(parts, axis=0), *outputs)

            self.predict_function = function
            return function

        return make_predict_function

    return made_from


class _HandingOut:
    """Has workers run a step on batches.

    Args:
        model: Whose step it is.
        step_function: The step.
        coordinator: What hands it out.
    """

    def __init__(
        self, model: Any, step_function: Callable[[Any], Any], coordinator: Coordinator
    ) -> None:
        strategy, step = model.distribute_strategy, model._autoconvert_optionals(step_function)
        self._on_worker = lambda data: strategy.run(step, args=(data,))
        self._coordinator = coordinator
        self._traced: list[tuple[Any, Any]] = []

    def __call__(self, batch: Any, spec: Any = None) -> WorkerStep:
        """Hands a batch out.

        Args:
            batch: The batch.
            spec: Types and shapes of all batches of its dataset, for which the step is traced, as
                Keras does: losses of several outputs weigh batches otherwise where the step is
                traced for one size. None where they are unknown.
        """
        return self._coordinator.hand_out(self._function(spec), batch)

    def _function(self, spec: Any) -> Any:
        import tensorflow as tf

        for known, function in self._traced:
            if known == spec:
                return function
        signature = {} if spec is None else {"input_signature": (spec,)}
        function = tf.function(
            self._on_worker, autograph=False, reduce_retracing=spec is None, **signature
        )
        self._traced.append((spec, function))
        return function


_PS = re.compile(r"/job:ps/(?:replica:\d+/)?task:(\d+)")


def _by_itself(coordinator: Coordinator, servers: Sequence[str]) -> Callable[[Any], Any]:
    """Has a call begin once no step of an earlier one is under way, and names lost servers."""

    def made_from(original: Any) -> Any:
        @functools.wraps(original)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            import tensorflow as tf

            if not is_coordinated(getattr(self, "distribute_strategy", None)):
                return original(self, *args, **kwargs)
            try:
                # Steps of a call that an exception ended fail by themselves; `fit` of a callback
                # that evaluates hears of its own when it fetches them.
                with _ignoring_all_but_lost_servers():
                    coordinator.finish()
                return original(self, *args, **kwargs)
            except tf.errors.UnavailableError as error:
                if lost := _lost(error):
                    raise WorkerError(_lost_servers(lost, servers)) from error
                raise

        return call

    return made_from


@contextmanager
def _ignoring_all_but_lost_servers() -> Iterator[None]:
    import tensorflow as tf

    try:
        yield
    except tf.errors.OpError as error:
        if _lost(error):
            raise


def _lost(error: Any) -> list[int]:
    """Numbers of the parameter servers that an error of TensorFlow names as unavailable."""
    return sorted(set(map(int, _PS.findall(error.message))))


def _lost_servers(lost: Sequence[int], servers: Sequence[str]) -> str:
    names = ", ".join(f"ps {index} at {servers[index]}" for index in lost)
    return (
        f"Lost contact with {names}, and with it the variables that it held. Its own log says why. "
        "All processes have to be started again; with keras.callbacks.BackupAndRestore they resume "
        "from the last backup."
    )
