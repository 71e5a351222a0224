"""Common names for the kinds of stages in Python classes, graphs and tf.data's model."""

from __future__ import annotations

import functools
import re

from keras_gpukit.records.pipeline import Work

# Names in tf.data's model that differ from those of the Python classes and operations.
SAME_AS = {
    "Csv": "CSV",
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


@functools.cache  # called dozens of times at the end of each run, with few different names
def kind_of(name: str) -> str:
    """Returns the common kind of stages: "Map" for "_ParallelMapDataset" and "ParallelMapV2"."""
    plain = re.sub(r"Dataset(V\d+)?$", "", name.lstrip("_"))
    plain = re.sub(r"V\d+$", "", plain)
    plain = re.sub(r"^(Legacy)?Parallel", "", plain)
    return SAME_AS.get(plain, plain)


@functools.cache
def spoken(kind: str) -> str:
    """Returns the name that users know a kind by: "padded_batch" for "PaddedBatch"."""
    if "." in kind:  # "MapDataset.map", of Grain
        return kind
    return SPOKEN.get(kind) or re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind).lower()


def work_of_kind(kind: str) -> Work:
    """Returns the kind of work of a stage without a function."""
    return "reading" if kind in READERS else WORK.get(kind, "other")
