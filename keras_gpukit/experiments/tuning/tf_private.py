"""How a `tf.data` pipeline is read and put together anew, through its private names.

Seen on TensorFlow 2.21: the stages' classes and attributes in `tensorflow.python.data.ops`,
`DatasetV2._inputs`, `._functions`, `._variant_tensor`, `._common_args`, `UnaryDataset`, and
`op_def_registry.get`. A stage is made anew from the operation behind it, with the function that was
traced when it was written and the seeds that it drew then: nothing is traced again, and no random
number is drawn. Where a name is gone, the stages in question count as unknown, and are left as
they are.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

Dataset = Any
"""A `tf.data.Dataset`."""


def kind(stage: Dataset) -> str:
    """A stage's kind: "Map", "ParallelMap", "Batch", "Cache", "TensorSlice" and so on."""
    return type(stage).__name__.strip("_").removesuffix("V2").removesuffix("Dataset")


def unwrapped(stage: Dataset) -> Dataset:
    """The stage behind a reader of files, which is a stage over the files' names."""
    inner = getattr(stage, "_impl", None)
    return stage if inner is None else inner


def is_readable(stage: Dataset) -> bool:
    """Whether it can be seen what a stage reads and which functions it calls."""
    if not (hasattr(stage, "_inputs") and hasattr(stage, "_functions")):
        return False
    return all(hasattr(wrapper, "function") for wrapper in stage._functions())


def inputs(stage: Dataset) -> list[Dataset]:
    """The stages below; none where they are not known."""
    return [unwrapped(each) for each in stage._inputs()] if is_readable(stage) else []


def functions(stage: Dataset) -> list[Any]:
    """The traced functions that a stage calls; none where they are not known."""
    if not is_readable(stage):
        return []
    return [wrapper.function for wrapper in stage._functions()]


def function_name(stage: Dataset) -> str:
    """The name of the function that a stage calls: "decode", "tf.data.TFRecordDataset"."""
    for wrapper in stage._functions():
        for node in wrapper.function.graph.as_graph_def().node:
            if node.op in _READERS:
                return _READERS[node.op]
        name = getattr(getattr(wrapper, "_func", None), "__name__", "")
        if name:
            return str(name)
    return "a function"


def is_tensorflows(stage: Dataset) -> bool:
    """Whether a stage calls a function that TensorFlow defines, readers of files aside."""
    is_of_library = _module(stage).split(".")[0] == "tensorflow"
    return is_of_library and function_name(stage) not in _READERS.values()


def makes_a_generator(stage: Dataset) -> bool:
    """Whether a stage is what `from_generator` returns."""
    is_flat_map = kind(stage) == "FlatMap" and is_readable(stage)
    return is_flat_map and _module(stage).endswith(".from_generator_op")


def _module(stage: Dataset) -> str:
    """Where the function that a stage calls was defined."""
    function = getattr(stage._functions()[0], "_func", None)
    return str(getattr(function, "__module__", ""))


_READERS = {
    "TFRecordDataset": "tf.data.TFRecordDataset",
    "TFRecordDatasetV2": "tf.data.TFRecordDataset",
    "TextLineDataset": "tf.data.TextLineDataset",
}


def variables(stage: Dataset) -> list[Any]:
    """The variables that a stage's functions reach, such as a random generator's state."""
    return [variable for function in functions(stage) for variable in function.graph.variables]


def operations(function: Any) -> Iterator[Any]:
    """Every node of a function's graph, and of the functions it calls."""
    graph = function.graph.as_graph_def()
    yield from graph.node
    for called in graph.library.function:
        yield from called.node_def


def captures_a_dataset(function: Any) -> bool:
    """Whether a function reaches a dataset, or another object of that type, made outside it."""
    import tensorflow as tf

    return any(tensor.dtype == tf.variant for tensor in function.captured_inputs)


def is_stateful(operation: str) -> bool:
    """Whether an operation's type is registered as one with state; an unknown one is."""
    from tensorflow.python.framework import op_def_registry

    definition = op_def_registry.get(operation)
    return definition is None or bool(definition.is_stateful)


def over(stage: Dataset, below: list[Dataset]) -> Dataset:
    """The same stage over other inputs.

    Raises:
        KeyError: If the stage's kind is not known.
    """
    import tensorflow as tf
    from tensorflow.python.data.util import nest

    name = kind(stage)
    if name == "Zip":
        structure = nest.pack_sequence_as(stage._datasets, below)
        return tf.data.Dataset.zip(structure, name=stage._name)
    if name == "Concatenate":
        return below[0].concatenate(below[1], name=stage._name)
    if name == "Options":
        return below[0].with_options(stage._options_attr, name=stage._name)
    if name == "Random":
        return _random(stage)
    return _made(copy.copy(stage), below[0], *_OPERATIONS[name])


def is_zip_of_a_tuple(stage: Dataset) -> bool:
    """Whether a `zip`'s elements are tuples of its inputs' elements, one after the other."""
    datasets = getattr(stage, "_datasets", None)
    return isinstance(datasets, tuple) and not any(
        isinstance(each, (tuple, dict)) for each in datasets
    )


def draws_orders(stage: Dataset) -> bool:
    """Whether a stage has a seed and goes on to another order, or numbers, with each reading."""
    if kind(stage) not in {"Shuffle", "Random"} or not is_known(stage):
        return False
    seeded = int(stage._seed) or int(stage._seed2)
    goes_on = stage._reshuffle_each_iteration if kind(stage) == "Shuffle" else stage._rerandomize
    return bool(seeded and goes_on)


def cache_file(stage: Dataset) -> str:
    """Where a `cache` is on disk; "" for one in memory, and "unknown" where that is not known."""
    name = getattr(stage, "_filename", None)
    return "unknown" if name is None else str(name.numpy().decode())


def is_known(stage: Dataset) -> bool:
    """Whether a stage can be put over other inputs."""
    import tensorflow as tf

    name = kind(stage)
    if not is_readable(stage):
        return False
    if name in {"Zip", "Concatenate"}:
        return name == "Concatenate" or hasattr(stage, "_datasets")
    if name == "Options":
        return hasattr(stage, "_options_attr")
    if name == "Random":
        return hasattr(tf.raw_ops, "RandomDatasetV2") and hasattr(stage, "_rerandomize")
    if name not in _OPERATIONS or not hasattr(stage, "_input_dataset"):
        return False
    operation, arguments = _OPERATIONS[name]
    try:
        arguments(stage)
    except AttributeError:
        return False
    if operation is None:
        return True
    return hasattr(tf.raw_ops, operation) and hasattr(stage, "_common_args")


def parallel_form(stage: Dataset) -> Any | None:
    """The class of a serial stage's parallel form; None where there is none."""
    try:
        from tensorflow.python.data.ops import batch_op, interleave_op, map_op
    except ImportError:
        return None
    module, name = {
        "Map": (map_op, "_ParallelMapDataset"),
        "Batch": (batch_op, "_ParallelBatchDataset"),
        "Interleave": (interleave_op, "_ParallelInterleaveDataset"),
        "FlatMap": (interleave_op, "_ParallelInterleaveDataset"),
    }.get(kind(stage), (None, ""))
    return getattr(module, name, None)


def in_parallel(
    stage: Dataset, below: Dataset, deterministic: str, cycle_length: int | None = None
) -> Dataset:
    """The parallel form of a serial `map`, `batch`, `interleave` or `flat_map`.

    Args:
        stage: The serial stage.
        below: What it reads.
        deterministic: "true", "false", or "default" for what the pipeline's options say.
        cycle_length: Files read in turn; the stage's own where None, and one at a time for a
            `flat_map`.
    """
    import tensorflow as tf

    autotune = tf.constant(tf.data.AUTOTUNE, tf.int64)
    form: Any = parallel_form(stage)
    parallel = object.__new__(form)
    parallel.__dict__.update(copy.copy(stage).__dict__)
    parallel._num_parallel_calls = autotune
    parallel._deterministic = deterministic
    if kind(stage) == "Map":
        parallel._use_unbounded_threadpool = False
    if kind(stage) in {"Interleave", "FlatMap"}:
        parallel._buffer_output_elements = parallel._prefetch_input_elements = autotune
        if kind(stage) == "FlatMap":
            parallel._cycle_length = parallel._block_length = tf.constant(1, tf.int64)
        if cycle_length is not None:
            parallel._cycle_length = tf.constant(cycle_length, tf.int64)
    return _made(parallel, below, *_OPERATIONS[kind(parallel)])


def with_buffer(stage: Dataset, below: Dataset, buffer_size: int) -> Dataset:
    """A `shuffle` with another buffer."""
    import tensorflow as tf

    shuffle = copy.copy(stage)
    shuffle._buffer_size = tf.constant(buffer_size, tf.int64)
    return _made(shuffle, below, *_OPERATIONS["Shuffle"])


Arguments = Callable[[Any], dict[str, Any]]


def _made(stage: Any, below: Dataset, operation: str | None, arguments: Arguments) -> Dataset:
    import tensorflow as tf
    from tensorflow.python.data.ops import dataset_ops

    stage._input_dataset = below
    variant = below._variant_tensor
    if operation is not None:
        made = getattr(tf.raw_ops, operation)
        common = dict(stage._common_args)
        if operation == "PaddedBatchDatasetV2":  # the one that knows its types itself
            del common["output_types"]
        variant = made(input_dataset=variant, **arguments(stage), **common)
    dataset_ops.UnaryDataset.__init__(stage, below, variant)
    return stage


def _random(stage: Any) -> Dataset:
    import tensorflow as tf
    from tensorflow.python.data.ops import dataset_ops

    if not stage._rerandomize:
        return stage  # the same in each iteration
    made = copy.copy(stage)
    variant = tf.raw_ops.RandomDatasetV2(
        seed=stage._seed,
        seed2=stage._seed2,
        seed_generator=tf.raw_ops.DummySeedGenerator(),
        rerandomize_each_iteration=True,
        **stage._common_args,
    )
    dataset_ops.DatasetSource.__init__(made, variant)
    return made


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


_OPERATIONS: dict[str, tuple[str | None, Arguments]] = {
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
