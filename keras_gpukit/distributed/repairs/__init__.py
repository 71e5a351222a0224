"""Repairs of Keras' training under `tf.distribute`, each made once.

Keras 3.12 to 3.15 has the faults. A Keras whose private names differ is left as it is, with a
warning. Under strategies that a repair does not concern, training stays Keras' own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from keras_gpukit.distributed.repairs import several_workers, training_steps
from keras_gpukit.distributed.repairs.keras_private import trainer_module
from keras_gpukit.errors import GPUKitWarning

Repair = tuple[str, Callable[[Any], None]]
"""Short description of what is repaired, and the function that repairs Keras' trainer module."""
UNREAD_WORKERS: Repair = (
    "building from a batch of a PyDataset's workers",
    training_steps.build_from_signature,
)
MIRRORED: tuple[Repair, ...] = (
    ("several steps per execution", training_steps.take_steps_in_one_function),
    UNREAD_WORKERS,
)
MULTI_WORKER: tuple[Repair, ...] = (
    ("building from a distributed batch", training_steps.build_from_own_part),
    ("averaging metrics over workers", training_steps.average_over_replicas),
    *MIRRORED,
)
_done: set[str] = set()


def repair_mirrored() -> None:
    """Applies the repairs that a `MirroredStrategy` over GPUs needs."""
    _make(*MIRRORED)


def repair_parameter_server() -> None:
    """Applies the repair that a `ParameterServerStrategy` needs; the coordinator does the rest."""
    _make(UNREAD_WORKERS)


def repair_multi_worker() -> None:
    """Applies the repairs that a strategy over several workers needs."""
    _make(*MULTI_WORKER)
    if "callbacks" not in _done:
        _done.add("callbacks")
        several_workers.write_on_chief_only()
        several_workers.restore_on_chief()
        several_workers.name_lost_workers()


def _make(*repairs: Repair) -> None:
    trainer = trainer_module()
    for what, repair in repairs if trainer is not None else ():
        if what in _done:
            continue
        _done.add(what)
        try:
            repair(trainer)
        except AttributeError as error:  # private names: a newer Keras may have others
            import keras

            warnings.warn(
                f"keras_gpukit does not know Keras {keras.__version__} well enough for a repair "
                f"({what}), and leaves it as it is. The cause: {error}",
                GPUKitWarning,
                stacklevel=3,
            )
