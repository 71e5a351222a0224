"""Moves stages to a tf.data service, which makes their elements in other processes."""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

from keras_gpukit.frameworks.tf_datasets import Dataset, inputs, kind
from keras_gpukit.input.pipelines.functions import makes_a_generator
from keras_gpukit.input.pipelines.kinds import READERS
from keras_gpukit.input.pipelines.randomness import impurities

MODE = "distributed_epoch"
"""Processing mode, TensorFlow's `ShardingPolicy.DYNAMIC`: each worker takes the next part of the
source's elements that is left. An epoch has each element once, in another order."""

_SOURCES = READERS | {"TensorSlice", "Range"}
# Others would change in meaning: each worker would `take(n)` elements, or end with a short batch.
_STEPS = frozenset(
    {"Map", "ParallelMap", "Filter", "Shuffle", "Prefetch", "Options"}
    | {"Interleave", "ParallelInterleave", "FlatMap"}
)
_REASONS = {
    "python": "it calls Python code, which cannot run in other processes",
    "variable": "it uses a variable of this process",
    "state": "it depends on state in this process",
}


class Served(NamedTuple):
    """The stage that was moved to a service, and the address of the service."""

    stage: Dataset
    service: str


_served: WeakKeyDictionary[Dataset, Served] = WeakKeyDictionary()


def serve(stage: Dataset, service: str) -> Dataset:
    """Returns a dataset of a stage's elements, made by a tf.data service."""
    import tensorflow as tf

    made = stage.apply(tf.data.experimental.service.distribute(MODE, service))
    _served[made] = Served(stage, service)
    return made


def served(stage: Dataset) -> Served | None:
    """Returns the moved stage and its service for a dataset from `serve`; None for others."""
    return _served.get(stage)


def movable(spine: list[Dataset]) -> tuple[Dataset | None, str]:
    """Finds the last stage that can be moved to a service together with all stages before it.

    Returns:
        The stage and "", or None and the reason why no stage can be moved.
    """
    if not spine or inputs(spine[-1]) or kind(spine[-1]) not in _SOURCES:
        return None, "it begins with a stage that cannot be split among workers"
    found: Dataset | None = None
    reason = "no work lies between its source and the first stage that must stay in this process"
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
