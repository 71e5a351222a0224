"""What would help a pipeline, but only its author can change."""

from __future__ import annotations

from collections.abc import Iterator

from keras_gpukit.pipelines.functions import function_name
from keras_gpukit.pipelines.kinds import kind
from keras_gpukit.pipelines.randomness import impurities, varies
from keras_gpukit.pipelines.remaking import is_known
from keras_gpukit.pipelines.structure import Dataset, functions, inputs, number, stages

# Fetching a batch and starting a step cost the same for one example as for a hundred.
SMALL_BATCH = 16
_MAPS = {"Map", "ParallelMap"}
_NESTS = {"FlatMap", "Interleave", "ParallelInterleave"}
# A dataset that is made of these alone has one element.
_ONE_ELEMENT = {"TensorDataset", "MapDataset", "ParallelMapDataset", "ParallelMapDatasetV2"}
_BATCHES = {"Batch", "ParallelBatch"}


def advice(dataset: Dataset, *, trust_python: bool) -> list[str]:
    """What to change by hand, one thing a line.

    Args:
        dataset: The tuned pipeline.
        trust_python: Whether Python functions are taken to give the same each time.
    """
    found = dict.fromkeys(line for stage in stages(dataset) for line in _about(stage, trust_python))
    return list(found)


def _about(stage: Dataset, trust_python: bool) -> Iterator[str]:
    below = inputs(stage)
    if not below:
        return
    if kind(stage) == "Cache":
        frozen = varies(below[0], trust_python=trust_python)
        if frozen:
            yield (
                f"The cache holds what should differ from epoch to epoch ({frozen}): cache before "
                "that stage."
            )
    if kind(stage) in _BATCHES and is_known(stage):
        size = number(stage, "batch_size")
        if size < SMALL_BATCH:
            yield (
                f"Batches of {size}: a larger batch costs little more to fetch and to train on; "
                "adapt the learning rate."
            )
        if kind(below[0]) in _MAPS and not impurities(below[0]):
            name = function_name(below[0])
            yield (
                f"If {name} can take whole batches, call it after batch(): one call for each batch "
                "in place of one for each element."
            )
    if kind(stage) in _NESTS and _nests_one_element(stage):
        name = function_name(stage)
        yield (
            f"{name} makes a dataset of a single element each time: call what it does in map() "
            "with num_parallel_calls instead."
        )
    is_shuffle = kind(stage) == "Shuffle" and is_known(stage)
    if is_shuffle and kind(below[0]) in _MAPS and not impurities(below[0]):
        name, size = function_name(below[0]), number(stage, "buffer_size")
        yield (
            f"Shuffle before {name}: the order is the same, and the buffer of "
            f"{size} elements holds what {name} is given, not what it makes."
        )
    if "python" in impurities(stage):
        yield (
            f"{_whose(stage)} runs in Python, one call at a time: write it with TensorFlow's "
            "operations, or make it a keras.utils.PyDataset with several workers."
        )


def _nests_one_element(stage: Dataset) -> bool:
    made = {
        node.op
        for function in functions(stage)
        for node in function.graph.as_graph_def().node
        if node.op.endswith(("Dataset", "DatasetV2", "DatasetV3", "DatasetV4"))
    }
    return "TensorDataset" in made and made <= _ONE_ELEMENT


def _whose(stage: Dataset) -> str:
    name = function_name(stage)
    generated = {"generator_next_fn", "finalize_fn", "get_iterator_id_fn", "flat_map_fn"}
    return "The generator" if name in generated else name
