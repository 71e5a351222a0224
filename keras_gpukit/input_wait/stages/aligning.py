"""Matches the stages in user code to the stages of the pipeline that runs.

tf.data rewrites a pipeline before it runs: it adds buffers, fuses stages and removes those that do
nothing. The match keeps the order, and pairs as many stages of the same kind as possible.
"""

from __future__ import annotations

from collections.abc import Iterator

from keras_gpukit.input_wait.stages.readings import MeasuredNode
from keras_gpukit.pipelines.kinds import kind_of
from keras_gpukit.pipelines.stage import Stage

# What a fused stage was written as, the last one first. It is called after the other.
FUSED = {"MapAndBatch": ("Batch", "Map"), "ShuffleAndRepeat": ("Repeat", "Shuffle")}

# By the identity of a measured stage: two may be equal.
Names = dict[int, Stage]


def align(written: Stage, running: MeasuredNode) -> Names:
    """Returns the stages that were written by the identity of those that run."""
    return _best(written, running, {})


def _best(written: Stage, running: MeasuredNode, known: dict[tuple[int, int], Names]) -> Names:
    """The most names that can be given from here on towards the sources."""
    key = id(written), id(running)
    if key not in known:
        best = Names()
        for names in _ways(written, running, known):
            best = max(best, names, key=len)
            if len(best) == written.size:
                break
        known[key] = best
    return known[key]


def _ways(
    written: Stage, running: MeasuredNode, known: dict[tuple[int, int], Names]
) -> Iterator[Names]:
    yield _here(written, running, known)
    for source in running.inputs:
        yield _best(written, source, known)
    for stage in written.inputs:
        yield _best(stage, running, known)


def _here(written: Stage, running: MeasuredNode, known: dict[tuple[int, int], Names]) -> Names:
    """The most names if these two are the same stage."""
    kind = kind_of(running.kind)
    if kind in FUSED:
        last, first = FUSED[kind]
        parts = [stage for stage in _line(written) if stage.kind == first]
        if written.kind != last or not parts:
            return {}
        written = parts[0]
    elif kind != written.kind:
        return {}
    names = {id(running): written}
    for ours, theirs in ((written.inputs, running.inputs), (written.nested, running.nested)):
        for stage, place in zip(ours, theirs, strict=False):
            names |= _best(stage, place, known)
    return names


def _line(written: Stage) -> Iterator[Stage]:
    """Returns a stage and those before it, as far as they stand in one line."""
    yield written
    while len(written.inputs) == 1:
        written = written.inputs[0]
        yield written
