"""The operation behind each kind of stage, and the arguments with which it rebuilds the stage.

Private names: the attributes of the stages' classes in `tensorflow.python.data.ops`, seen on
TensorFlow 2.21.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Arguments = Callable[[Any], dict[str, Any]]


def _calls(wrapper: Any) -> dict[str, Any]:
    return {"other_arguments": wrapper.function.captured_inputs, "f": wrapper.function}


def _filters(stage: Any) -> dict[str, Any]:
    function = stage._predicate.function
    return {"other_arguments": function.captured_inputs, "predicate": function}


def _map(stage: Any) -> dict[str, Any]:
    return _calls(stage._map_func) | {
        "use_inter_op_parallelism": stage._use_inter_op_parallelism,
        "preserve_cardinality": stage._preserve_cardinality,
        "force_synchronous": stage._force_synchronous,
    }


def _parallel_map(stage: Any) -> dict[str, Any]:
    return _calls(stage._map_func) | {
        "num_parallel_calls": stage._num_parallel_calls,
        "deterministic": stage._deterministic,
        "use_inter_op_parallelism": stage._use_inter_op_parallelism,
        "preserve_cardinality": stage._preserve_cardinality,
        "use_unbounded_threadpool": stage._use_unbounded_threadpool,
    }


def _batch(stage: Any) -> dict[str, Any]:
    return {"batch_size": stage._batch_size, "drop_remainder": stage._drop_remainder}


def _parallel_batch(stage: Any) -> dict[str, Any]:
    return _batch(stage) | {
        "num_parallel_calls": stage._num_parallel_calls,
        "deterministic": stage._deterministic,
    }


def _padded_batch(stage: Any) -> dict[str, Any]:
    from tensorflow.python.data.util import nest

    return _batch(stage) | {
        "padded_shapes": nest.flatten(stage._padded_shapes),
        "padding_values": nest.flatten(stage._padding_values),
    }


def _interleave(stage: Any) -> dict[str, Any]:
    return _calls(stage._map_func) | {
        "cycle_length": stage._cycle_length,
        "block_length": stage._block_length,
    }


def _parallel_interleave(stage: Any) -> dict[str, Any]:
    return _interleave(stage) | {
        "buffer_output_elements": stage._buffer_output_elements,
        "prefetch_input_elements": stage._prefetch_input_elements,
        "num_parallel_calls": stage._num_parallel_calls,
        "deterministic": stage._deterministic,
    }


def _shuffle(stage: Any) -> dict[str, Any]:
    import tensorflow as tf

    return {
        "buffer_size": stage._buffer_size,
        "seed": stage._seed,
        "seed2": stage._seed2,
        "seed_generator": tf.raw_ops.DummySeedGenerator(),
        "reshuffle_each_iteration": stage._reshuffle_each_iteration,
    }


def _prefetch(stage: Any) -> dict[str, Any]:
    return {"buffer_size": stage._buffer_size, "legacy_autotune": int(stage._buffer_size) == -1}


def _count(stage: Any) -> dict[str, Any]:
    return {"count": stage._count}


def _shard(stage: Any) -> dict[str, Any]:
    return {"num_shards": stage._num_shards, "index": stage._index}


OPERATIONS: dict[str, tuple[str | None, Arguments]] = {
    "Restructured": (None, lambda stage: {}),
    "Map": ("MapDataset", _map),
    "ParallelMap": ("ParallelMapDatasetV2", _parallel_map),
    "Filter": ("FilterDataset", _filters),
    "FlatMap": ("FlatMapDataset", lambda stage: _calls(stage._map_func)),
    "Interleave": ("InterleaveDataset", _interleave),
    "ParallelInterleave": ("ParallelInterleaveDatasetV4", _parallel_interleave),
    "Batch": ("BatchDatasetV2", _batch),
    "ParallelBatch": ("ParallelBatchDataset", _parallel_batch),
    "PaddedBatch": ("PaddedBatchDatasetV2", _padded_batch),
    "Unbatch": ("UnbatchDataset", lambda stage: {}),
    "Shuffle": ("ShuffleDatasetV3", _shuffle),
    "Prefetch": ("PrefetchDataset", _prefetch),
    "Take": ("TakeDataset", _count),
    "Skip": ("SkipDataset", _count),
    "Repeat": ("RepeatDataset", _count),
    "Shard": ("ShardDataset", _shard),
}
