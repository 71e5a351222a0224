"""Makes all workers resume from the chief's backup, at the chief's epoch.

With Keras 3.12 to 3.15 each worker's `BackupAndRestore` reads the folder by itself. If one worker
finds a backup and another does not (separate disks; a backup written or deleted meanwhile), they
train different epochs, and wait for each other forever. Here the chief reads the backup, and gives
epoch, weights and optimizer state to the others.
"""

from __future__ import annotations

from typing import Any

from keras_gpukit.distributed.repairs.keras_private import (
    initial_epoch,
    is_chief,
    is_multi_worker,
    set_initial_epoch,
)

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
    epoch = int(_from_chief(strategy, initial_epoch(model)))
    if epoch == _FAILED:
        raise RuntimeError("The chief could not restore its backup; its own error says why.")
    set_initial_epoch(model, epoch)
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
