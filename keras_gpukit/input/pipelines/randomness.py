"""Dependencies of a stage: whether it gives the same each time, and can be moved elsewhere.

Only a stage that depends on nothing in this process can be moved to a tf.data service, which makes
its elements in other processes.
"""

from __future__ import annotations

from typing import Literal, NamedTuple
from weakref import WeakKeyDictionary

from keras_gpukit.frameworks.tf_datasets import (
    Dataset,
    functions,
    inputs,
    is_readable,
    kind,
    number,
    setting,
    stages,
)
from keras_gpukit.frameworks.tf_functions import is_stateful
from keras_gpukit.input.pipelines.functions import (
    READERS,
    captures_a_dataset,
    function_name,
    makes_a_generator,
    operations,
)
from keras_gpukit.records.placement import PYTHON_OPERATIONS

Impurity = Literal["random", "seeded", "python", "variable", "state"]
"""Dependency of a function other than its arguments: random draws without a seed or with one, a
Python function, a variable, or any other state."""

_WORDS: dict[Impurity, str] = {
    "random": "draws random numbers",
    "seeded": "draws random numbers with a seed",
    "python": "calls a Python function, whose behavior is unknown",
    "variable": "reads a variable, which may change",
    "state": "depends on state, such as a random generator's or another dataset's",
}

# Operations that are registered as stateful, but whose output depends only on their inputs as long
# as the files and tables that they read do not change.
_PURE = {
    *("Assert", "Case", "If", "While", "StatefulPartitionedCall"),
    *("LookupTableFindV2", "LookupTableSizeV2"),
    *("TensorDataset", "TensorSliceDataset", "RangeDataset"),
    "GeneratorDataset",  # its functions are checked on their own
    *("TFRecordDataset", "TFRecordDatasetV2", "TextLineDataset"),
    *("FixedLengthRecordDataset", "FixedLengthRecordDatasetV2"),
    *("CSVDataset", "CSVDatasetV2"),
}
_VARIABLE = {"ReadVariableOp", "VarHandleOp", "VarIsInitializedOp", "ResourceGather"}

_STEADY_KINDS = {
    *("TensorSlice", "Tensor", "Range", "TFRecord", "TextLine", "FixedLengthRecord", "Csv"),
    *("Map", "ParallelMap", "FlatMap", "Interleave", "ParallelInterleave", "Filter"),
    *("Batch", "ParallelBatch", "PaddedBatch", "Unbatch", "Restructured", "Prefetch"),
    *("Take", "Skip", "Shard", "Repeat", "Zip", "Concatenate", "Options", "Cache"),
}


def impurities(stage: Dataset) -> set[Impurity]:
    """Returns what a stage's functions depend on in addition to their arguments.

    If the stage's functions cannot be read, it counts as stateful.
    """
    if not is_readable(stage):
        return {"state"}
    called = functions(stage)
    found = {
        impurity
        for function in called
        for node in operations(function)
        if (impurity := _impurity(node)) is not None
    }
    # The graph does not show a dataset that was made outside it.
    if any(captures_a_dataset(function) for function in called):
        found.add("state")
    return found


def _impurity(node: object) -> Impurity | None:
    operation: str = node.op  # type: ignore[attr-defined]
    attributes = node.attr  # type: ignore[attr-defined]
    if operation in PYTHON_OPERATIONS:
        return "python"
    if operation in _VARIABLE:
        return "variable"
    if operation in _PURE or not is_stateful(operation):
        return None
    if "seed" in attributes and "seed2" in attributes:
        return "seeded" if attributes["seed"].i or attributes["seed2"].i else "random"
    return "state"


def in_words(found: set[Impurity]) -> str:
    """Returns impurities as the predicate of a sentence: "draws random numbers"."""
    return " and ".join(_WORDS[impurity] for impurity in sorted(found))


def changes_in_parallel(stage: Dataset, *, trust_python: bool, allow_reorder: bool) -> str | None:
    """Returns why calling a stage's function in parallel may change its elements; None if not.

    Random draws without a seed differ each time anyway. With a seed, elements would get each
    other's draws, which `allow_reorder` allows. With `trust_python`, Python functions are assumed
    to depend only on their arguments.
    """
    harmless: set[Impurity] = {"random", "variable"}
    if trust_python:
        harmless.add("python")
    if allow_reorder:
        harmless |= {"seeded", "state"}
    found = impurities(stage) - harmless
    return f"{function_name(stage)} {in_words(found)}" if found else None


def varies(dataset: Dataset, *, trust_python: bool) -> str | None:
    """Returns why reading a pipeline twice may give different elements; None if it cannot."""
    reasons = (stage_varies(stage, trust_python=trust_python) for stage in stages(dataset))
    return next(filter(None, reasons), None)


def stage_varies(stage: Dataset, *, trust_python: bool) -> str | None:
    """Returns why a stage may give different elements from the same inputs; None if it cannot."""
    if kind(stage) == "Shuffle":
        return "its order is shuffled"
    if kind(stage) not in _STEADY_KINDS or not is_readable(stage):
        return f"nothing is known about its stage {kind(stage)}"
    if setting(stage, "deterministic", None) == "false":
        return "its order is not fixed"
    found = impurities(stage) - ({"python"} if trust_python else set())
    return f"{function_name(stage)} {in_words(found)}" if found else None


_KEEPS_COUNT = ("Map", "ParallelMap", "Prefetch", "Shuffle", "Cache", "Options")


def repeated_batches(dataset: Dataset) -> int | None:
    """Returns the batches in one pass over data that `repeat()` repeats without end; else None.

    A function after `repeat` that varies, or a single element, gives other data each time.
    """
    per_batch = 1
    for stage in stages(dataset):
        if kind(stage) == "Repeat" and number(stage, "count") < 0:
            elements = int(inputs(stage)[0].cardinality())
            return -(-elements // per_batch) if elements > 1 else None
        if kind(stage) in ("Batch", "ParallelBatch"):
            per_batch *= number(stage, "batch_size")
        elif kind(stage) not in _KEEPS_COUNT:
            return None
        if kind(stage) in ("Map", "ParallelMap") and stage_varies(stage, trust_python=False):
            return None
    return None


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

    Returns the stage and "", or None and the reason why no stage can be moved.
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
            reason = "; ".join(sorted(_REASONS[hindrance] for hindrance in hindrances))
        if hindrances or kind(stage) not in _STEPS:
            break
        found = stage
    return found, "" if found is not None else reason
