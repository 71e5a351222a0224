"""Reads the traits of a pipeline's stages that the tuning advice depends on."""

from __future__ import annotations

from keras_gpukit.input.pipelines.functions import function_name, makes_a_generator
from keras_gpukit.input.pipelines.kinds import kind
from keras_gpukit.input.pipelines.randomness import impurities, varies
from keras_gpukit.input.pipelines.remaking import is_known
from keras_gpukit.input.pipelines.structure import Dataset, functions, inputs, number, stages
from keras_gpukit.records.tuning import StageTraits

_MAPS = {"Map", "ParallelMap"}
_NESTS = {"FlatMap", "Interleave", "ParallelInterleave"}
# A dataset that consists only of these stages has one element.
_ONE_ELEMENT = {"TensorDataset", "MapDataset", "ParallelMapDataset", "ParallelMapDatasetV2"}
_BATCHES = {"Batch", "ParallelBatch"}


def traits(dataset: Dataset, *, trust_python: bool) -> list[StageTraits]:
    """Returns the traits of each stage that has another stage below it.

    Args:
        dataset: The tuned pipeline.
        trust_python: Whether to assume that Python functions depend only on their arguments.
    """
    return [_traits_of(stage, trust_python) for stage in stages(dataset) if inputs(stage)]


def _traits_of(stage: Dataset, trust_python: bool) -> StageTraits:
    below, sort = inputs(stage)[0], kind(stage)
    is_map = kind(below) in _MAPS and not impurities(below)
    return StageTraits(
        function=function_name(stage) if functions(stage) else None,
        function_below=function_name(below) if is_map else None,
        is_generator=makes_a_generator(stage),
        is_python="python" in impurities(stage),
        gives_single_elements=sort in _NESTS and _nests_one_element(stage),
        batch_size=number(stage, "batch_size") if sort in _BATCHES and is_known(stage) else None,
        shuffle_buffer=(
            number(stage, "buffer_size") if sort == "Shuffle" and is_known(stage) else None
        ),
        caches_what_varies=varies(below, trust_python=trust_python) if sort == "Cache" else None,
    )


def _nests_one_element(stage: Dataset) -> bool:
    made = {
        node.op
        for function in functions(stage)
        for node in function.graph.as_graph_def().node
        if node.op.endswith(("Dataset", "DatasetV2", "DatasetV3", "DatasetV4"))
    }
    return "TensorDataset" in made and made <= _ONE_ELEMENT
