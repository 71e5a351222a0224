"""Makes only the chief write the files of Keras' callbacks when several workers train in step.

In Keras 3, every worker writes the same checkpoint, backup and TensorBoard folder. Here each of the
other workers writes to its own temporary folder, as TensorFlow's guide advises. It must not skip
the writing: reading a variable may be a collective, in which every worker has to take part
(https://www.tensorflow.org/tutorials/distribute/multi_worker_with_keras#model_saving_and_loading).
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
