"""Makes `fit`, `evaluate` and `predict` of Keras work under a `ParameterServerStrategy`.

Keras 3.12 to 3.15 gives the strategy a dataset that only workers can read, and calls its step on
the coordinator, which the strategy refuses. Here the coordinator reads the dataset and hands each
batch to the next free worker (`tf.distribute.coordinator.ClusterCoordinator`). If a worker is lost,
its batch goes to another one. Everything else is Keras' own `fit`: its arguments, callbacks,
validation and history.

Keras also adds to a variable by reading it and assigning the sum. Another worker may add in
between: the optimizer's iterations and the sums of metrics lost up to a quarter of their updates.
Here the server that holds the variable adds. Metrics that assign values which they have computed
themselves, such as `AUC`, stay approximate. Optimizers already update weights on the server.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from keras_gpukit.distributed.coordinating.coordinated_steps import (
    BatchesAhead,
    CoordinatedDataset,
    Coordinator,
    WorkerStep,
)
from keras_gpukit.distributed.repairs.several_workers import replace_method, tasks_in
from keras_gpukit.errors import WorkerError
from keras_gpukit.frameworks import keras_trainer
from keras_gpukit.frameworks.older_keras import trainer_class
from keras_gpukit.records.cluster import Cluster

AT_ONCE_PER_WORKER = 2
"""Steps in flight per worker: one runs, and the next is there. More would only age the weights."""


def is_coordinated(strategy: Any) -> bool:
    """Whether a strategy trains with parameter servers."""
    import tensorflow as tf

    return isinstance(strategy, tf.distribute.ParameterServerStrategy)


def train_by_coordinator(strategy: Any, cluster: Cluster, timeout_s: float) -> None:
    """Makes Keras train models of a `ParameterServerStrategy` through a coordinator.

    Models without such a strategy train as before.
    """
    import keras
    import tensorflow as tf

    workers = cluster.addresses["worker"]
    clusters = tf.distribute.coordinator.ClusterCoordinator(strategy)
    coordinator = Coordinator(clusters, workers, timeout_s)
    at_once = AT_ONCE_PER_WORKER * len(workers)
    trainer, servers = keras_trainer.trainer_module(), cluster.addresses["ps"]
    replace_method(trainer.TFEpochIterator, "__init__", _read_all, coordinator, at_once)
    trains = trainer_class(trainer)
    replace_method(trains, keras_trainer.MAKE_STEPS, _make_function, coordinator)
    replace_method(trains, "make_predict_function", _make_predict_function, coordinator)
    for name in ("assign_add", "assign_sub"):
        replace_method(keras.Variable, name, _add_on_the_server, name)
    calls = ("fit", "evaluate", "predict", "train_on_batch", "test_on_batch", "predict_on_batch")
    for name in calls:
        replace_method(keras.Model, name, _call_by_itself, coordinator, servers)


def _read_all(
    coordinator: Coordinator,
    at_once: int,
    original: Any,
    iterator: Any,
    distribute_strategy: Any = None,
    *args: Any,
    **given: Any,
) -> None:
    if not is_coordinated(distribute_strategy):
        original(iterator, distribute_strategy, *args, **given)
        return
    # Keras asks the strategy to distribute the dataset, which only workers could read then.
    leaves_it = SimpleNamespace(experimental_distribute_dataset=lambda dataset: dataset)
    original(iterator, leaves_it, *args, **given)
    steps, together = iterator.steps_per_epoch, iterator.steps_per_execution
    # Keras does not divide an execution: the epoch ends with the one that reaches its last step.
    taken = steps and math.ceil(steps / together) * together
    whole = keras_trainer.epoch_dataset(iterator)
    keras_trainer.replace_epoch_dataset(iterator, CoordinatedDataset(whole, at_once, taken))
    # Keras calls this after an epoch's loop. If a callback has ended the epoch early, steps are
    # still in flight, and would count towards the metrics of the next loop.
    iterator.tf_sync = coordinator.finish


def _make_function(
    coordinator: Coordinator, original: Any, model: Any, step_function: Callable[[Any], Any]
) -> Any:
    if not is_coordinated(model.distribute_strategy):
        return original(model, step_function)
    hand_out = _HandingOut(model, step_function, coordinator)
    optimizer = model.optimizer
    if optimizer is not None and not optimizer.built:
        with model.distribute_strategy.scope():  # workers must not create variables
            optimizer.build(model.trainable_variables)

    def function(batches: Any) -> Any:
        if not isinstance(batches, BatchesAhead):  # train_on_batch
            return hand_out(next(iter(batches))).fetch()
        logs = batches.step(hand_out)
        for _ in range(model.steps_per_execution - 1):
            try:
                logs = batches.step(hand_out)
            except StopIteration:
                break
        return logs

    return function


def _make_predict_function(
    coordinator: Coordinator, original: Any, model: Any, force: bool = False
) -> Any:
    if not is_coordinated(model.distribute_strategy):
        return original(model, force)
    import keras
    import tensorflow as tf

    hand_out = _HandingOut(model, model.predict_step, coordinator)

    def function(batches: list[Any]) -> Any:
        pending = [hand_out(batch) for batch in batches]
        outputs = [keras.tree.map_structure(tf.constant, step.fetch()) for step in pending]
        return keras.tree.map_structure(lambda *parts: tf.concat(parts, axis=0), *outputs)

    model.predict_function = function
    return function


class _HandingOut:
    """Hands out batches to workers, which run a step on them."""

    def __init__(
        self, model: Any, step_function: Callable[[Any], Any], coordinator: Coordinator
    ) -> None:
        strategy = model.distribute_strategy
        step = getattr(model, keras_trainer.CONVERT_OPTIONALS)(step_function)
        self._on_worker = lambda data: strategy.run(step, args=(data,))
        self._coordinator = coordinator
        self._traced: list[tuple[Any, Any]] = []

    def __call__(self, batch: Any, spec: Any = None) -> WorkerStep:
        """Hands out a batch, to a step that is traced for all batches of the dataset, as in Keras.

        If it were traced for one batch size, losses of several outputs would weigh batches
        differently. `spec` has the types and shapes of all batches; None if they are unknown.
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


def _call_by_itself(
    coordinator: Coordinator,
    servers: Sequence[str],
    original: Any,
    model: Any,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Calls a method once all steps of earlier calls have ended; an error names lost servers."""
    if not is_coordinated(getattr(model, "distribute_strategy", None)):
        return original(model, *args, **kwargs)
    import tensorflow as tf

    try:
        # If an exception ended an earlier call, the call's remaining steps fail by themselves. If
        # a callback evaluates during `fit`, `fit` gets errors of its steps when it fetches them.
        try:
            coordinator.finish()
        except tf.errors.OpError as error:
            if _lost(error):
                raise
        return original(model, *args, **kwargs)
    except tf.errors.UnavailableError as error:
        if not (lost := _lost(error)):
            raise
        names = ", ".join(f"ps {index} at {servers[index]}" for index in lost)
        raise WorkerError(
            f"Lost contact with {names}, and with it the variables that it held. Its own log says "
            "why. All processes have to be started again; with keras.callbacks.BackupAndRestore "
            "they resume from the last backup."
        ) from error


def _lost(error: Any) -> list[int]:
    """Returns the indices of the parameter servers that a TensorFlow error calls unavailable."""
    return [index for role, index in tasks_in(error.message) if role == "ps"]


def _add_on_the_server(name: str, original: Any, variable: Any, value: Any) -> Any:
    """Adds to a variable, or subtracts from it, within a step, where the variable is."""
    import tensorflow as tf

    within_step = is_coordinated(tf.distribute.get_strategy())
    held = keras_trainer.held_by(variable)
    if not (within_step and isinstance(held, tf.Variable)):
        return original(variable, value)
    getattr(held, name)(tf.cast(value, held.dtype))
    return held
