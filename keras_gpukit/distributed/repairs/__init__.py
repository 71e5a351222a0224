"""Repairs of Keras' training under `tf.distribute`, made once, if Keras has the fault."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from keras_gpukit.distributed.repairs import (
    averaging,
    building,
    callback_files,
    lost_worker,
    several_steps,
)
from keras_gpukit.distributed.repairs.keras_private import trainer_module
from keras_gpukit.errors import GPUKitWarning


@dataclass(frozen=True)
class Repair:
    """One repair of Keras' trainer.

    Attributes:
        what: Short description of the repaired function.
        is_needed: Function that tests, given Keras' trainer module, whether the fault is present.
        make: Function that applies the repair to Keras' trainer module.
    """

    what: str
    is_needed: Callable[[Any], bool]
    make: Callable[[Any], None]


SEVERAL_STEPS = Repair(
    "several steps per execution",
    several_steps.nests_the_step,
    several_steps.take_steps_in_one_function,
)
UNREAD_WORKERS = Repair(
    "building from a batch of a PyDataset's workers",
    building.reads_a_batch,
    building.build_from_signature,
)
MULTI_WORKER = (
    Repair(
        "building from a distributed batch",
        building.builds_from_distributed_batch,
        building.build_from_own_part,
    ),
    Repair(
        "averaging metrics over workers",
        averaging.averages_along_an_axis,
        averaging.average_over_replicas,
    ),
    SEVERAL_STEPS,
    UNREAD_WORKERS,
)
_done: set[str] = set()


def repair_mirrored() -> None:
    """Applies the repairs that a `MirroredStrategy` over GPUs needs."""
    _make(SEVERAL_STEPS)
    _make(UNREAD_WORKERS)


def repair_parameter_server() -> None:
    """Applies the repair that a `ParameterServerStrategy` needs; the coordinator does the rest."""
    _make(UNREAD_WORKERS)


def repair_multi_worker() -> None:
    """Applies the repairs that a strategy over several workers needs."""
    for repair in MULTI_WORKER:
        _make(repair)
    if "callbacks" not in _done:
        _done.add("callbacks")
        callback_files.write_on_chief_only()
        callback_files.restore_on_chief()
        lost_worker.name_lost_workers()


def _make(repair: Repair) -> None:
    """Applies a repair if Keras has the fault; leaves an unknown version of Keras unchanged."""
    trainer = trainer_module()
    if trainer is None or repair.what in _done:
        return
    _done.add(repair.what)
    try:
        if repair.is_needed(trainer):
            repair.make(trainer)
    except Exception as error:  # private names: a newer Keras may have others
        import keras

        warnings.warn(
            f"keras_gpukit does not know Keras {keras.__version__} well enough to tell whether it "
            f"needs a repair ({repair.what}), and leaves it as it is. The cause: "
            f"{type(error).__name__}: {error}",
            GPUKitWarning,
            stacklevel=3,
        )
