"""Rebuilds a pipeline, as it is or with some of its stages changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from keras_gpukit.pipelines.remaking import is_known, over
from keras_gpukit.pipelines.structure import Dataset, inputs, unwrapped

Change = Callable[[list[Dataset]], Dataset]
"""Makes a stage's successor from its inputs, which may have changed themselves."""


def changeable(dataset: Dataset) -> list[Dataset]:
    """The stages that can be replaced: those with only known stages above them."""
    dataset = unwrapped(dataset)
    found = [dataset]
    if is_known(dataset):
        for below in inputs(dataset):
            found += changeable(below)
    return found


def spine(dataset: Dataset) -> list[Dataset]:
    """The stages from the last one down, as far as each is known and has one input."""
    found = [unwrapped(dataset)]
    while is_known(found[-1]) and len(inputs(found[-1])) == 1:
        found.append(inputs(found[-1])[0])
    return found


def replace(dataset: Dataset, changes: Mapping[int, Change]) -> Dataset:
    """Rebuilds a pipeline with some stages replaced.

    Args:
        dataset: The pipeline.
        changes: By a stage's `id`, what makes its successor. Each must be one of the `changeable`.
    """

    def made(stage: Dataset, before: list[Dataset], after: list[Dataset]) -> Dataset:
        if id(stage) in changes:
            return changes[id(stage)](after)
        if all(old is new for old, new in zip(before, after, strict=True)):
            return stage
        return over(stage, after)

    return _rebuilt(dataset, made)


def rebuilt(dataset: Dataset) -> Dataset:
    """The same pipeline as another object, so that reading it moves no shuffle of the first on."""

    def made(stage: Dataset, before: list[Dataset], after: list[Dataset]) -> Dataset:
        return over(stage, after) if is_known(stage) else stage

    return _rebuilt(dataset, made)


def _rebuilt(
    dataset: Dataset, made: Callable[[Dataset, list[Dataset], list[Dataset]], Dataset]
) -> Dataset:
    # A stage that two others read stays one: a shuffle draws its next order for each of them.
    done: dict[int, Dataset] = {}

    def visit(stage: Dataset) -> Dataset:
        if id(stage) not in done:
            before = inputs(stage) if is_known(stage) else []
            done[id(stage)] = made(stage, before, [visit(below) for below in before])
        return done[id(stage)]

    return visit(unwrapped(dataset))


def stack(base: Dataset, above: list[Dataset]) -> Dataset:
    """Puts stages over a base, the lowest first."""
    for stage in above:
        base = over(stage, [base])
    return base
