"""One name for each kind of stage, whatever Python, graphs and tf.data's model call it."""

from __future__ import annotations

import functools
import re
from typing import Any

from keras_gpukit.records.pipeline import Work

# Names in tf.data's model that differ from those of the Python classes and operations.
SAME_AS = {
    "FromTensor": "Tensor",
    "FromSparseTensorSlice": "TensorSlice",
    "ForeverRepeat": "Repeat",
    "FiniteRepeat": "Repeat",
    "EmptyRepeat": "Repeat",
    "FiniteTake": "Take",
    "EmptyTake": "Take",
    "FiniteSkip": "Skip",
    "EmptySkip": "Skip",
    "ForeverSkip": "Skip",
    "FileCache": "Cache",
    "MemoryCache": "Cache",
}
# Kinds that are known by another name to users.
SPOKEN = {
    "MapAndBatch": "map and batch",
    "ShuffleAndRepeat": "shuffle",
    "TensorSlice": "from_tensor_slices",
    "Tensor": "from_tensors",
    "DirectedInterleave": "sample_from_datasets",
    "TFRecord": "TFRecordDataset",
    "TextLine": "TextLineDataset",
    "FixedLengthRecord": "FixedLengthRecordDataset",
}
BATCHES = {"Batch", "ParallelBatch", "PaddedBatch"}
READERS = {"TFRecord", "TextLine", "FixedLengthRecord", "CSV", "SqlDatabase", "LMDB", "Snapshot"}
WORK: dict[str, Work] = {
    "Batch": "batching",
    "PaddedBatch": "batching",
    "MapAndBatch": "mapping",
    "Unbatch": "batching",
    "Window": "batching",
    "DenseToSparseBatch": "batching",
    "Shuffle": "shuffling",
    "ShuffleAndRepeat": "shuffling",
    "Cache": "caching",
    "MemoryCacheImpl": "caching",
    "FileCacheImpl": "caching",
    "Map": "mapping",
    "Scan": "mapping",
    "Filter": "filtering",
    "Generator": "python",
}


def kind(stage: Any) -> str:
    """Returns a stage's own kind, such as "ParallelMap", "Batch" or "TensorSlice"."""
    return type(stage).__name__.strip("_").removesuffix("V2").removesuffix("Dataset")


@functools.cache  # the end of each run asks for the same few, dozens of times
def kind_of(name: str) -> str:
    """Returns the kind of a stage: "Map" for "_ParallelMapDataset" and "ParallelMapV2" alike."""
    plain = re.sub(r"Dataset(V\d+)?$", "", name.lstrip("_"))
    plain = re.sub(r"V\d+$", "", plain)
    plain = re.sub(r"^(Legacy)?Parallel", "", plain)
    return SAME_AS.get(plain, plain)


@functools.cache
def spoken(kind: str) -> str:
    """Returns what a user calls a kind: "padded_batch" for "PaddedBatch"."""
    return SPOKEN.get(kind) or re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind).lower()


def work_of_kind(kind: str) -> Work:
    """Returns what a stage without a function does."""
    return "reading" if kind in READERS else WORK.get(kind, "other")
