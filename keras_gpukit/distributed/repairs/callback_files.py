"""Makes the chief's files count for all, when several workers train in step.

In Keras 3, every worker writes the same checkpoint, backup and TensorBoard folder. Here each of the
other workers writes to its own temporary folder, as TensorFlow's guide advises. It must not skip
the writing: reading a variable may be a collective, in which every worker has to take part
(https://www.tensorflow.org/tutorials/distribute/multi_worker_with_keras#model_saving_and_loading).

Each worker's `BackupAndRestore` also reads the folder by itself. If one finds a backup and another
does not (separate disks; a backup written or deleted meanwhile), they train different epochs, and
wait for each other forever. Here the chief reads the backup, and gives epoch, weights and optimizer
state to the others.

Private name, seen on Keras 3.12 and 3.15: `Trainer._initial_epoch`, at which `fit` begins.
"""

from __future__ import annotations

import functools
import os
import tempfile
import weakref
from pathlib import Path
from typing import Any

from keras_gpukit.distributed.repairs.keras_private import is_chief, is_multi_worker

_PATHS = {
    "ModelCheckpoint": ("filepath",),
    "TensorBoard": ("log_dir",),
    "CSVLogger": ("filename",),
    "BackupAndRestore": (
        "backup_dir",
        "_weights_path",
        "_training_metadata_path",
        "_prev_weights_path",
        "_prev_training_metadata_path",
    ),
}
"""Attributes of callbacks that hold paths; the private ones were seen on Keras 3.12 and 3.15."""


def write_on_chief_only() -> None:
    """Redirects the files of callbacks on every worker but the chief, from the next `fit` on."""
    import keras

    for name, attributes in _PATHS.items():
        _redirect(getattr(keras.callbacks, name), attributes)


def _redirect(callback_class: Any, attributes: tuple[str, ...]) -> None:
    original = callback_class.set_model

    @functools.wraps(original)
    def set_model(self: Any, model: Any) -> None:
        strategy = getattr(model, "distribute_strategy", None)
        if is_multi_worker(strategy) and not is_chief(strategy):
            _use_own_folder(self, attributes)
        original(self, model)

    callback_class.set_model = set_model


_folders: weakref.WeakKeyDictionary[Any, tempfile.TemporaryDirectory[str]] = (
    weakref.WeakKeyDictionary()
)


def _use_own_folder(callback: Any, attributes: tuple[str, ...]) -> None:
    """Moves a callback's paths into a folder that is deleted with the callback."""
    if callback in _folders:
        return
    folder = _folders[callback] = tempfile.TemporaryDirectory(prefix="keras_gpukit_worker_")
    for attribute in attributes:
        path = Path(os.fspath(getattr(callback, attribute)))
        moved = Path(folder.name, *path.parts[-2:])
        moved.parent.mkdir(exist_ok=True)  # CSVLogger makes no folder
        setattr(callback, attribute, str(moved))


_FAILED = -1


def restore_on_chief() -> None:
    """Repairs `keras.callbacks.BackupAndRestore`, for models that several workers train."""
    import keras

    callback_class = keras.callbacks.BackupAndRestore
    original = callback_class.on_train_begin

    def on_train_begin(self: Any, logs: Any = None) -> None:
        strategy = self.model.distribute_strategy
        if not is_multi_worker(strategy):
            original(self, logs)
        elif is_chief(strategy):
            try:
                original(self, logs)
            except BaseException:
                _from_chief(strategy, _FAILED)  # the others wait for it
                raise
            _share(self.model, strategy)
        else:
            _share(self.model, strategy)

    callback_class.on_train_begin = on_train_begin


def _share(model: Any, strategy: Any) -> None:
    """Gives every worker the chief's epoch, weights and optimizer state."""
    epoch = int(_from_chief(strategy, getattr(model, "_initial_epoch", None) or 0))
    if epoch == _FAILED:
        raise RuntimeError("The chief could not restore its backup; its own error says why.")
    model._initial_epoch = epoch
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
