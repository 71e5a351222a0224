"""How much of what a stage makes is dropped by later stages, and what fills a cache.

A stage that neither batches nor nests passes on each element that it is given, or drops it, as
`filter`, `skip` and `shard` do. So the counts of two such stages show what is dropped in between,
whatever their kinds.
"""

from __future__ import annotations

from keras_gpukit.input.pipelines.kinds import kind_of
from keras_gpukit.input.wait.stages.readings import NESTING, REPEATING, MeasuredNode

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
        ahead += [(each, share) for each in stage.nested]
        ahead += [(each, share * passed_on(stage, each)) for each in stage.inputs]
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
    before = [each for source in stage.inputs for each in source.walk()]
    return [each for each in before if each.elements and not kind_of(each.kind).endswith("Impl")]
