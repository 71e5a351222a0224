"""Repairs for several workers: the chief's files count for all, and a lost worker is named.

In Keras 3, every worker writes the same checkpoint, backup and TensorBoard folder. Here each of the
other workers writes to its own temporary folder, as TensorFlow's guide advises. It must not skip
the writing: reading a variable may be a collective, in which every worker has to take part
(https://www.tensorflow.org/tutorials/distribute/multi_worker_with_keras#model_saving_and_loading).

Each worker's `BackupAndRestore` also reads the folder by itself. If one finds a backup and another
does not (separate disks; a backup written or deleted meanwhile), they train different epochs, and
wait for each other forever. Here the chief reads the backup, and gives epoch, weights and optimizer
state to the others.

TensorFlow 2.21 notices a lost worker after about ten seconds. Its error shows where in the model
the collective was, and mentions `/job:worker/replica:0/task:1` before and after that. Here `fit`,
`evaluate` and `predict` end with an error that names the worker.
"""

from __future__ import annotations

import functools
import os
import re
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keras_gpukit.errors import WorkerError
from keras_gpukit.frameworks.keras_trainer import first_epoch, start_at_epoch

_PATHS = {
    "ModelCheckpoint": "filepath",
    "TensorBoard": "log_dir",
    "CSVLogger": "filename",
    "BackupAndRestore": "backup_dir",
}
"""The attribute of each callback that holds the path to which it writes."""


def is_multi_worker(strategy: Any) -> bool:
    """Whether a strategy trains in step with other processes."""
    import tensorflow as tf

    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return False
    return bool(cluster_of(strategy))  # without one, it is a MirroredStrategy by another name


def cluster_of(strategy: Any) -> dict[str, list[str]]:
    """Returns the addresses of a strategy's cluster, by task type; empty without a cluster."""
    resolver = getattr(strategy, "cluster_resolver", None)
    return {} if resolver is None else dict(resolver.cluster_spec().as_dict())


def is_chief(strategy: Any) -> bool:
    """Whether this process is the chief, which writes the files that its cluster shares."""
    first = "chief" if "chief" in cluster_of(strategy) else "worker"
    return _own_task(strategy) == (first, 0)


def _own_task(strategy: Any) -> tuple[str, int]:
    resolver = strategy.cluster_resolver
    return resolver.task_type, resolver.task_id


def replace_method(owner: Any, name: str, function: Callable[..., Any], *first: Any) -> None:
    """Replaces a method by a function, called with `first`, the method and its arguments."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def method(*args: Any, **kwargs: Any) -> Any:
        return function(*first, original, *args, **kwargs)

    setattr(owner, name, method)


def repair_callbacks_and_calls() -> None:
    """Makes the repairs of this module; only models that several workers train are affected."""
    import keras

    for name, attribute in _PATHS.items():
        replace_method(getattr(keras.callbacks, name), "set_model", _set_model, attribute)
    replace_method(keras.callbacks.BackupAndRestore, "on_train_begin", _restore)
    for name in ("fit", "evaluate", "predict"):
        replace_method(keras.Model, name, _call_and_name_lost)


def _set_model(attribute: str, original: Any, callback: Any, model: Any) -> None:
    strategy = getattr(model, "distribute_strategy", None)
    if is_multi_worker(strategy) and not is_chief(strategy):
        _use_own_folder(callback, attribute)
    original(callback, model)


_folders: weakref.WeakKeyDictionary[Any, tempfile.TemporaryDirectory[str]] = (
    weakref.WeakKeyDictionary()
)


def _use_own_folder(callback: Any, attribute: str) -> None:
    """Moves a callback's path, and all within it, into a folder that goes with the callback."""
    if callback in _folders:
        return
    folder = _folders[callback] = tempfile.TemporaryDirectory(prefix="keras_gpukit_worker_")
    within = os.path.join(getattr(callback, attribute), "")
    for name, value in tuple(vars(callback).items()):
        if name == attribute or (isinstance(value, str) and value.startswith(within)):
            moved = Path(folder.name, *Path(value).parts[-2:])
            moved.parent.mkdir(exist_ok=True)  # CSVLogger makes no folder
            setattr(callback, name, str(moved))


_FAILED = -1


def _restore(original: Any, callback: Any, logs: Any = None) -> None:
    strategy = callback.model.distribute_strategy
    several = is_multi_worker(strategy)
    if not several or is_chief(strategy):
        try:
            original(callback, logs)
        except BaseException:
            if several:
                _from_chief(strategy, _FAILED)  # the others wait for it
            raise
    if several:
        _share(callback.model, strategy)


def _share(model: Any, strategy: Any) -> None:
    """Gives every worker the chief's epoch, weights and optimizer state."""
    epoch = int(_from_chief(strategy, first_epoch(model)))
    if epoch == _FAILED:
        raise RuntimeError("The chief could not restore its backup; its own error says why.")
    start_at_epoch(model, epoch)
    if model.optimizer is not None and not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
    variables = [*model.variables, *(model.optimizer.variables if model.optimizer else ())]
    for variable in variables:
        if variable.dtype != "string":
            variable.assign(_from_chief(strategy, variable.numpy()))


def _from_chief(strategy: Any, value: Any) -> Any:
    """Returns the chief's value on every worker: a sum to which only the chief contributes."""
    import numpy as np
    import tensorflow as tf

    value = np.asarray(value)  # of the same type on every worker
    first = is_chief(strategy)

    def mine(context: Any) -> Any:
        counts = first and context.replica_id_in_sync_group == 0
        return tf.constant(value if counts else np.zeros_like(value))

    values = strategy.experimental_distribute_values_from_function(mine)
    return strategy.reduce("SUM", values, axis=None).numpy()


# grpc_status 14 is UNAVAILABLE: the connection to another process broke.
_LOST = ("stopped sending heartbeats", "Socket closed", "grpc_status:14")
_TASK = re.compile(r"/job:(\w+)/(?:replica:\d+/)?task:(\d+)")


def tasks_in(message: str) -> list[tuple[str, int]]:
    """Returns the tasks that a TensorFlow error mentions, each by its type and index."""
    return sorted({(role, int(index)) for role, index in _TASK.findall(message)})


def lost_tasks(message: str, own: tuple[str, int]) -> list[tuple[str, int]]:
    """Returns the tasks that a TensorFlow error names as lost, without this process's own task."""
    if not any(sign in message for sign in _LOST):
        return []
    return [task for task in tasks_in(message) if task != own]


def _call_and_name_lost(original: Any, model: Any, *args: Any, **kwargs: Any) -> Any:
    import tensorflow as tf

    try:
        return original(model, *args, **kwargs)
    except tf.errors.OpError as error:
        strategy = getattr(model, "distribute_strategy", None)
        if not is_multi_worker(strategy) or not (
            lost := lost_tasks(error.message, _own_task(strategy))
        ):
            raise
        cluster = cluster_of(strategy)
        names = ", ".join(f"{role} {i} at {cluster[role][i]}" for role, i in lost)
        raise WorkerError(
            f"Lost contact with {names}: it ended, or its machine or network failed. Its own "
            "log says why. All workers have to be started again; with "
            "keras.callbacks.BackupAndRestore they resume from the chief's last backup."
        ) from error
