"""Stages whose elements a tf.data service makes, in other processes."""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

from keras_gpukit.pipelines.functions import makes_a_generator
from keras_gpukit.pipelines.kinds import READERS, kind
from keras_gpukit.pipelines.randomness import impurities
from keras_gpukit.pipelines.structure import Dataset, inputs

MODE = "distributed_epoch"
"""Each worker gets a part of the source's elements, the next one that is left: TensorFlow's
`ShardingPolicy.DYNAMIC`. In an epoch each element comes once, in another order."""

_SOURCES = READERS | {"TensorSlice", "Range"}
# Others mean something else on each worker: `take(n)` takes n there, and a last batch is there too.
_STEPS = frozenset(
    {"Map", "ParallelMap", "Filter", "Shuffle", "Prefetch", "Options"}
    | {"Interleave", "ParallelInterleave", "FlatMap"}
)
_REASONS = {
    "python": "it calls Python code, which cannot run in other processes",
    "variable": "it uses a variable of this process",
    "state": "it keeps a state in this process",
}


class Served(NamedTuple):
    """What a stage stands for, and the address of the service that makes its elements."""

    stage: Dataset
    service: str


_served: WeakKeyDictionary[Dataset, Served] = WeakKeyDictionary()


def serve(stage: Dataset, service: str) -> Dataset:
    """Returns a dataset of a stage's elements that a tf.data service makes.

    Args:
        stage: The last stage of the part that moves there.
        service: Such as "grpc://localhost:5050".
    """
    import tensorflow as tf

    made = stage.apply(tf.data.experimental.service.distribute(MODE, service))
    _served[made] = Served(stage, service)
    return made


def served(stage: Dataset) -> Served | None:
    """What `serve` made a stage from; None for others."""
    return _served.get(stage)


def movable(spine: list[Dataset]) -> tuple[Dataset | None, str]:
    """Finds the highest stage that can be moved to a service, with all that is below it.

    Args:
        spine: The stages of a pipeline from the last one down, each with one input.

    Returns:
        The stage, or why nothing can be moved.
    """
    if not spine or inputs(spine[-1]) or kind(spine[-1]) not in _SOURCES:
        return None, "it begins with a stage that cannot be split among workers"
    found: Dataset | None = None
    reason = "no stage between its source and what must stay here does any work"
    for stage in reversed(spine[:-1]):
        hindrances = impurities(stage) & _REASONS.keys()
        if makes_a_generator(stage):
            hindrances = {"python"}
        if hindrances:
            reason = "; ".join(sorted(_REASONS[each] for each in hindrances))
        if hindrances or kind(stage) not in _STEPS:
            break
        found = stage
    return found, "" if found is not None else reason
