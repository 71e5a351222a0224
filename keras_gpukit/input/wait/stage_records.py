"""Makes records of measured stages: with the names in user code, what each takes, and what is used.

tf.data rewrites a pipeline before it runs: it adds buffers, fuses stages and removes those that do
nothing. The match with user code keeps the order and pairs as many stages of a kind as possible.

A stage that neither batches nor nests passes on each element that it is given, or drops it, as
`filter`, `skip` and `shard` do. So the counts of two such stages show what is dropped in between,
whatever their kinds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from keras_gpukit.input.pipelines.functions import WORK, kind_of, spoken
from keras_gpukit.input.pipelines.stage import Function, Stage
from keras_gpukit.input.wait.bottleneck import Member, Segment, in_order, slowest
from keras_gpukit.input.wait.readings import NESTING, REPEATING, MeasuredNode
from keras_gpukit.records.pipeline import StageRecord, Work

# The two stages in user code that tf.data fuses, the later one first. The fused stage gets the name
# of the earlier one.
FUSED = {"MapAndBatch": ("Batch", "Map"), "ShuffleAndRepeat": ("Repeat", "Shuffle")}

# Keyed by the `id` of a measured stage, since two stages may be equal.
Names = dict[int, Stage]

# Work of stages that only move elements: what takes time is how often a function makes them.
_UNNAMED: tuple[Work, ...] = ("batching", "other", "mapping")


def stage_records(
    output: MeasuredNode, names: Names, *, refills: bool = False
) -> tuple[tuple[StageRecord, ...], float]:
    """Returns the stages of a pipeline with their names, and the time of its slowest segment.

    With `refills`, a cache that is being filled was filled in an earlier epoch, too.
    """
    used, found = used_shares(output), list(in_order(output))
    critical = slowest([segment for segment, _ in found])
    records = {id(member.stage): _stage(member, part, critical, names) for part, member in found}
    for node in (member.stage for _, member in found):
        filling = [stage for stage in fills(node) if id(stage) in records] if refills else []
        share = sum(records[id(stage)].share for stage in filling)
        records[id(node)] = replace(
            records[id(node)], used=used[id(node)], refill_share=share if filling else None
        )
    for node in reversed([member.stage for _, member in found]):
        if node.buffered is None and node.nested:
            _credit_maker(node, records)
    return tuple(records.values()), critical.time_s


def _credit_maker(maker: MeasuredNode, records: dict[int, StageRecord]) -> None:
    """Adds what a stage's datasets cost to the stage that makes them, as `flat_map` does.

    Nested stages that users know by a function or by what they read keep their cost. An
    asynchronous stage has threads of its own for its datasets, so it is left as it is.
    """
    made = records[id(maker)]
    for node in (stage for nested in maker.nested for stage in nested.walk()):
        record = records.get(id(node))
        if record is None or record.location or record.work not in _UNNAMED:
            continue
        spent_s = record.cost_per_batch_s or 0.0
        made = replace(
            made,
            share=made.share + record.share,
            cost_per_batch_s=(made.cost_per_batch_s or 0.0) + spent_s,
            cost_s=(made.cost_s or 0.0) + spent_s / maker.per_batch if maker.per_batch else None,
        )
        records[id(node)] = replace(record, share=0.0, cost_per_batch_s=0.0, cost_s=0.0)
    records[id(maker)] = made


def _stage(member: Member, segment: Segment, critical: Segment, names: Names) -> StageRecord:
    node = member.stage
    kind = kind_of(node.kind)
    written = node.written or names.get(id(node)) or Stage(kind)
    function = written.function or Function(None)
    is_critical = segment is critical and critical.time_s > 0
    return StageRecord(
        name=written.given_name or function.name or spoken(kind),
        kind=spoken(kind),
        work=WORK.get(kind, "other") if function.work == "mapping" else function.work,
        location=function.location,
        cost_s=node.cost_s,
        cost_per_batch_s=node.cost_per_batch_s,
        parallelism=max(node.parallelism, round(segment.threads)),
        asked_parallelism=node.asked_parallelism,
        buffered_after=_known(segment.buffered_after),
        share=member.time_s / critical.time_s if is_critical else 0.0,
        files=written.files,
        repeats=written.repeats,
        pass_bytes=node.pass_bytes or None,
        call=function.call,
        elements=node.per_batch,
        joined=written.joined or None,
    )


def _known(buffered: float | None) -> float | None:
    return None if buffered is None or math.isnan(buffered) else buffered


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


# Stages that make fewer elements than they are given without dropping any.
_JOINING = {
    "Batch",
    "PaddedBatch",
    "MapAndBatch",
    "DenseToSparseBatch",
    "RaggedBatch",
    "Rebatch",
    "SlidingWindow",
    "Window",
    "Concatenate",
    "Cache",  # read more than once, or ahead
}
LEAST_DROPPED = 10
"""Fewest elements from which a difference of two counts is no chance; our choice.

Elements on which parallel calls still work are in neither count.
"""
LEAST_SHARE = 0.1
"""Smallest share of a stage's elements that counts as dropped; our choice."""


def used_shares(output: MeasuredNode) -> dict[int, float]:
    """Returns the share of each stage's elements that later stages pass on, by its `id`."""
    shares: dict[int, float] = {}
    ahead = [(output, 1.0)]
    while ahead:
        stage, share = ahead.pop()
        shares[id(stage)] = share
        ahead += [(nested, share) for nested in stage.nested]
        ahead += [(source, share * passed_on(stage, source)) for source in stage.inputs]
    return shares


def passed_on(stage: MeasuredNode, source: MeasuredNode) -> float:
    """Returns the share of a source's elements that a stage has passed on or still holds."""
    joins = kind_of(stage.kind) in _JOINING or len(stage.inputs) > 1
    if joins or stage.kind in NESTING | REPEATING or not source.elements:
        return 1.0
    dropped = source.elements - stage.elements - max(stage.held, 0)
    if dropped < max(LEAST_DROPPED, LEAST_SHARE * source.elements):
        return 1.0
    return 1 - dropped / source.elements


def fills(stage: MeasuredNode) -> list[MeasuredNode]:
    """Returns the stages that fill a cache; none for other stages, and one that is filled."""
    if kind_of(stage.kind) != "Cache":
        return []
    before = [node for source in stage.inputs for node in source.walk()]
    return [node for node in before if node.elements and not kind_of(node.kind).endswith("Impl")]
