"""Rebuilds a pipeline, unchanged or with some stages replaced."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from keras_gpukit.frameworks.tf_datasets import Dataset, inputs, unwrapped
from keras_gpukit.frameworks.tf_stages import can_be_rebuilt, over
from keras_gpukit.input.pipelines.functions import helper_of

Change = Callable[[list[Dataset]], Dataset]
"""Function that makes the replacement of a stage from its inputs, which may be new themselves."""


def is_known(stage: Dataset) -> bool:
    """Whether a stage can be rebuilt with other inputs.

    The inside of `make_csv_dataset` counts as unknown: user code could not make it otherwise.
    """
    return can_be_rebuilt(stage) and helper_of(stage) != "make_csv_dataset"


def changeable(dataset: Dataset) -> list[Dataset]:
    """Returns the stages that can be replaced: all stages between them and training are known."""
    dataset = unwrapped(dataset)
    found = [dataset]
    if is_known(dataset):
        for below in inputs(dataset):
            found += changeable(below)
    return found


def spine(dataset: Dataset) -> list[Dataset]:
    """Returns the stages from the last one back, as long as each is known and has one input."""
    found = [unwrapped(dataset)]
    while is_known(found[-1]) and len(inputs(found[-1])) == 1:
        found.append(inputs(found[-1])[0])
    return found


def replace(dataset: Dataset, changes: Mapping[int, Change]) -> Dataset:
    """Rebuilds a pipeline with some of its `changeable` stages replaced, by the stage's `id`."""

    def made(stage: Dataset, before: list[Dataset], after: list[Dataset]) -> Dataset:
        if id(stage) in changes:
            return changes[id(stage)](after)
        if all(old is new for old, new in zip(before, after, strict=True)):
            return stage
        return over(stage, after)

    return _rebuilt(dataset, made)


def rebuilt(dataset: Dataset) -> Dataset:
    """Returns the same pipeline as a new object; reading it advances no shuffle of the original.

    The exception are stages of unknown kind and all before them: both pipelines share these.
    """

    def made(stage: Dataset, before: list[Dataset], after: list[Dataset]) -> Dataset:
        return over(stage, after) if is_known(stage) else stage

    return _rebuilt(dataset, made)


def _rebuilt(
    dataset: Dataset, made: Callable[[Dataset, list[Dataset], list[Dataset]], Dataset]
) -> Dataset:
    # A stage that two others read stays one stage: each reading of a shuffle draws the next order.
    done: dict[int, Dataset] = {}

    def visit(stage: Dataset) -> Dataset:
        if id(stage) not in done:
            before = inputs(stage) if is_known(stage) else []
            done[id(stage)] = made(stage, before, [visit(below) for below in before])
        return done[id(stage)]

    return visit(unwrapped(dataset))


def stack(base: Dataset, above: list[Dataset]) -> Dataset:
    """Returns a pipeline with further stages appended to a base, in the given order."""
    for stage in above:
        base = over(stage, [base])
    return base
