"""Matches the stages in user code to the stages of the pipeline that runs.

tf.data rewrites a pipeline before it runs: it adds buffers, fuses stages and removes those that do
nothing. The match keeps the order and pairs as many stages of the same kind as possible.
"""

from __future__ import annotations

from collections.abc import Iterator

from keras_gpukit.input.pipelines.kinds import kind_of
from keras_gpukit.input.pipelines.stage import Stage
from keras_gpukit.input.wait.stages.readings import MeasuredNode

# The two stages in user code that tf.data fuses, the later one first. The fused stage gets the name
# of the earlier one.
FUSED = {"MapAndBatch": ("Batch", "Map"), "ShuffleAndRepeat": ("Repeat", "Shuffle")}

# Keyed by the `id` of a measured stage, since two stages may be equal.
Names = dict[int, Stage]


def align(written: Stage, running: MeasuredNode) -> Names:
    """Returns the stages in user code, keyed by the `id` of the running stages they match."""
    return _best(written, running, {})


def _best(written: Stage, running: MeasuredNode, known: dict[tuple[int, int], Names]) -> Names:
    """Returns the largest match of the stages from these two back to the sources."""
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
    """Returns the largest match that pairs these two; empty if they cannot be the same stage."""
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
    """Yields a stage and those before it, as long as each has a single input."""
    yield written
    while len(written.inputs) == 1:
        written = written.inputs[0]
        yield written
