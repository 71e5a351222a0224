"""Stages and the functions that they call: their kinds, names, graphs, work and dependencies."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from keras_gpukit.frameworks.tf_datasets import (
    Dataset,
    functions,
    functions_of,
    is_readable,
    kind,
    once_per_dataset,
)
from keras_gpukit.input.pipelines.places import HELPERS, name_and_location
from keras_gpukit.records.pipeline import Work
from keras_gpukit.records.placement import PYTHON_OPERATIONS

# Names in tf.data's model that differ from those of the Python classes and operations.
SAME_AS = {"Csv": "CSV", "FromTensor": "Tensor", "FromSparseTensorSlice": "TensorSlice"}
# Kinds that tf.data has several stages of, such as "FiniteTake" and "EmptyTake".
_SEVERAL = re.compile(r"^(Empty|Finite|Forever|File|Memory)(?=(Repeat|Take|Skip|Cache)$)")
# Kinds that users know by another name.
SPOKEN = {
    "MapAndBatch": "map and batch",
    "ShuffleAndRepeat": "shuffle",
    "TensorSlice": "from_tensor_slices",
    "Tensor": "from_tensors",
    "DirectedInterleave": "sample_from_datasets",
    "TFRecord": "TFRecordDataset",
    "TextLine": "TextLineDataset",
    "FixedLengthRecord": "FixedLengthRecordDataset",
    "CSV": "CsvDataset",
}
BATCHES = {"Batch", "ParallelBatch", "PaddedBatch"}
READERS = {"TFRecord", "TextLine", "FixedLengthRecord", "CSV", "SqlDatabase", "LMDB", "Snapshot"}
_WITH_WORK: dict[Work, Collection[str]] = {
    "reading": READERS,
    "batching": ("Batch", "PaddedBatch", "Unbatch", "Window", "DenseToSparseBatch"),
    "shuffling": ("Shuffle", "ShuffleAndRepeat"),
    "caching": ("Cache", "MemoryCacheImpl", "FileCacheImpl"),
    "mapping": ("Map", "MapAndBatch", "Scan"),
    "filtering": ("Filter",),
    "python": ("Generator",),
}
WORK = {kind: work for work, kinds in _WITH_WORK.items() for kind in kinds}
"""Work of stages without a function, by their kind; that of others is "other"."""


@functools.cache  # called dozens of times at the end of each run, with few different names
def kind_of(name: str) -> str:
    """Returns the common kind of stages: "Map" for "_ParallelMapDataset" and "ParallelMapV2"."""
    plain = re.sub(r"Dataset(V\d+)?$", "", name.lstrip("_"))
    plain = re.sub(r"V\d+$", "", plain)
    plain = re.sub(r"^(Legacy)?Parallel", "", plain)
    plain = _SEVERAL.sub("", plain)
    return SAME_AS.get(plain, plain)


@functools.cache
def spoken(kind: str) -> str:
    """Returns the name that users know a kind by: "padded_batch" for "PaddedBatch"."""
    if "." in kind:  # "MapDataset.map", of Grain
        return kind
    return SPOKEN.get(kind) or snake_case(kind)


def snake_case(name: str) -> str:
    """Returns "padded_batch" for "PaddedBatch"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


# Operations that read files, with the names that users know.
_READERS = {
    "TFRecordDataset": "tf.data.TFRecordDataset",
    "TFRecordDatasetV2": "tf.data.TFRecordDataset",
    "TextLineDataset": "tf.data.TextLineDataset",
}


def work_of(operations: Iterable[str]) -> Work:
    """Returns the kind of work that a function does, given the types of its operations."""
    kinds = set(operations)
    if kinds & PYTHON_OPERATIONS:
        return "python"
    if any(kind.startswith("Parse") or kind == "DecodeCSV" for kind in kinds):
        return "parsing"
    if any(kind.startswith("Decode") for kind in kinds):
        return "decoding"
    if kinds & {"ReadFile"}:
        return "reading"
    return "mapping"


def function_name(stage: Dataset) -> str:
    """Returns the name of the function that a stage calls: "decode", "tf.data.TFRecordDataset"."""
    for function in functions(stage):
        for node in function.graph.as_graph_def().node:
            if node.op in _READERS:
                return _READERS[node.op]
    names = (getattr(function, "__name__", "") for function, _ in functions_of(stage))
    return next(filter(None, names), "a function")


def is_tensorflows(stage: Dataset) -> bool:
    """Whether a stage calls a function that TensorFlow defines, other than a reader of files."""
    is_of_library = _module(stage).split(".")[0] == "tensorflow"
    return is_of_library and function_name(stage) not in _READERS.values()


def makes_a_generator(stage: Dataset) -> bool:
    """Whether a stage was made by `from_generator`."""
    is_flat_map = kind(stage) == "FlatMap" and is_readable(stage)
    return is_flat_map and _module(stage).endswith(".from_generator_op")


@once_per_dataset
def helper_of(stage: Dataset) -> str | None:
    """Returns the helper that made a stage, such as "make_csv_dataset"; None if none did."""
    names = [name_and_location(function)[0] for function, _ in functions_of(stage)]
    return next((name for name in names if name in HELPERS.values()), None)


def _module(stage: Dataset) -> str:
    """Returns the module of the function that a stage calls; "" if unknown."""
    return next((str(function.__module__) for function, _ in functions_of(stage)), "")


def variables(stage: Dataset) -> list[Any]:
    """Returns the variables that a stage's functions use, such as a random generator's state."""
    return [variable for function in functions(stage) for variable in function.graph.variables]


def operations(function: Any) -> Iterator[Any]:
    """Yields every node of a function's graph, and of the functions it calls."""
    graph = function.graph.as_graph_def()
    yield from graph.node
    for called in graph.library.function:
        yield from called.node_def


def captures_a_dataset(function: Any) -> bool:
    """Whether a function captures a dataset, or another variant tensor, that was made outside."""
    import tensorflow as tf

    return any(tensor.dtype == tf.variant for tensor in function.captured_inputs)


def returns_its_arguments(graph: Any) -> bool:
    """Whether a function returns its arguments unchanged."""
    returned = [_before_identities(output) for output in graph.outputs]
    return len(returned) == len(graph.inputs) and all(
        output is given for output, given in zip(returned, graph.inputs, strict=True)
    )


def _before_identities(tensor: Any) -> Any:
    while tensor.op.type == "Identity":
        tensor = tensor.op.inputs[0]
    return tensor
