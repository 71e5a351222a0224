"""Facts about the input of replicas, read from a dataset and a model."""

from __future__ import annotations

from typing import Any

from keras_gpukit.frameworks.tf_datasets import (
    functions,
    inputs,
    kind,
    number,
    setting,
    stages,
    unwrapped,
)
from keras_gpukit.input.pipelines.functions import operations
from keras_gpukit.input.pipelines.kinds import BATCHES, READERS, kind_of
from keras_gpukit.layer_names import layers_in
from keras_gpukit.records.cluster import ReplicaInput

_OPEN_FILES = {"Interleave", "ParallelInterleave", "FlatMap"}
# Stages after the last batching that leave the size of the batches in an epoch unchanged.
_PASS_ON = {"Prefetch", "Options", "Map", "ParallelMap", "Cache", "Shuffle"}


def replica_input(
    dataset: Any, *, replicas: int, workers: int = 1, model: Any = None
) -> ReplicaInput:
    """Returns facts about the input of replicas; the dataset is not iterated."""
    import tensorflow as tf

    if not isinstance(dataset, tf.data.Dataset):
        raise TypeError(
            f"`dataset` must be a tf.data.Dataset. Received: dataset={type(dataset).__name__}"
        )
    batch, last, drops = _batching(dataset)
    return ReplicaInput(
        replicas=replicas,
        workers=workers,
        policy=dataset.options().experimental_distribute.auto_shard_policy.name,
        files=_files(dataset),
        batch=batch,
        last_batch=last,
        drops_remainder=drops,
        batch_norms=None if model is None else sum(map(_is_unsynchronized, layers_in(model))),
    )


def workers_of(strategy: Any) -> int:
    """Returns the number of processes that train in step under a strategy; 1 without a cluster."""
    resolver = getattr(strategy, "cluster_resolver", None)
    if resolver is None:
        return 1
    cluster = resolver.cluster_spec().as_dict()
    return max(1, len(cluster.get("chief", ())) + len(cluster.get("worker", ())))


def _batching(dataset: Any) -> tuple[int | None, int | None, bool]:
    """Returns the batch size, the last batch's size, and whether a partial batch is dropped.

    The sizes are None if they are unknown. The last batch is that of an epoch.
    """
    stage = _below_passing(dataset)
    if kind(stage) not in BATCHES:
        return None, None, False
    batch = number(stage, "batch_size")
    examples = int(inputs(stage)[0].cardinality())
    last = None if examples <= 0 else (examples % batch or batch)
    return batch, last, bool(setting(stage, "drop_remainder"))


def _files(dataset: Any) -> int | None:
    """Returns the number of files that are read; None if no reader is found or if it is unknown."""
    counts = [
        int(_below_passing(inputs(stage)[0]).cardinality())
        for stage in stages(dataset)
        if kind(stage) in _OPEN_FILES and _opens_files(stage)
    ]
    return sum(counts) if counts and min(counts) >= 0 else None


def _below_passing(dataset: Any) -> Any:
    """Returns the last stage that changes the size of what it passes on."""
    stage = unwrapped(dataset)
    while kind(stage) in _PASS_ON and len(inputs(stage)) == 1:
        stage = unwrapped(inputs(stage)[0])
    return stage


def _opens_files(stage: Any) -> bool:
    nodes = (node for function in functions(stage) for node in operations(function))
    return any(kind_of(node.op) in READERS for node in nodes)


def _is_unsynchronized(layer: Any) -> bool:
    import keras

    return isinstance(layer, keras.layers.BatchNormalization) and not layer.synchronized
