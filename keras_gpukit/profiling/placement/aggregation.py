"""Makes the placement record from a step's operations; all it needs is passed to it as data."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection
from dataclasses import replace

from keras_gpukit.layer_names import LayerNames
from keras_gpukit.profiling.placement.copies import sum_copies
from keras_gpukit.records.placement import (
    CompiledPart,
    Fallback,
    Operation,
    PlacedOperations,
    PlacementRecord,
    StepOperations,
)
from keras_gpukit.rules.compute.placement_causes import (
    Registry,
    Surroundings,
    Why,
    by_likely_mistake,
    find_fallbacks,
    is_input,
    judge_placement,
    original_type,
)

MOST_ROWS = 300
"""Maximum number of rows in the record, which take up to 80 kB. A large model has thousands."""

Refuses = Callable[[str, str], bool | None]
"""Returns whether XLA cannot compile an operation type for a device; None if unknown."""


def make_record(
    ran: StepOperations,
    around: Surroundings,
    registry: Registry,
    xla_refuses: Refuses = lambda operation_type, device: None,
) -> PlacementRecord:
    """Returns the placement record of the operations that ran.

    Without a GPU, the fallbacks are predicted. If TensorFlow was also built without GPU kernels,
    prediction is not possible and the record has no fallbacks.
    """
    judgeable = ran.operations if around.has_gpu or around.predicted else ()
    fallbacks = find_fallbacks(judgeable, registry, around)
    judged = {
        (kind, device): judge_placement(kind, device, registry, around)
        for kind, device in {(operation.kind, operation.device) for operation in ran.operations}
    }
    rows = Counter(
        _row(operation, *judged[operation.kind, operation.device], registry, around.layers)
        for operation in ran.operations
    )
    sorted_rows = sorted(
        (replace(row, count=count) for row, count in rows.items()), key=by_likely_mistake
    )
    compiled_parts = _compiled_parts(ran.operations)
    return PlacementRecord(
        operations=_count(ran.operations, registry),
        fallbacks=tuple(_completed(fallback, ran, around.layers) for fallback in fallbacks),
        predicted=around.predicted,
        transfers=sum(ran.transfers_between.values()),
        mechanism="xla" if compiled_parts else "graph",
        transfers_between=dict(ran.transfers_between),
        rows=tuple(sorted_rows[:MOST_ROWS]),
        rows_left_out=len(sorted_rows[MOST_ROWS:]),
        operations_left_out=sum(row.count for row in sorted_rows[MOST_ROWS:]),
        compiled_parts=compiled_parts,
        not_compilable=not_compilable(ran.operations, xla_refuses),
        copies=sum_copies(ran.sent, around.layers),
    )


def _row(
    operation: Operation,
    expected: bool,
    why: Why | None,
    registry: Registry,
    layers: LayerNames,
) -> PlacedOperations:
    kind = operation.kind
    return PlacedOperations(
        operation=original_type(kind.type, registry),
        layer=layers.of(operation.name),
        device=operation.device,
        count=1,
        requested=kind.ignored_request or kind.requested or None,
        expected=expected,
        cause=why[0] if why else None,
        reason=why[1] if why else None,
        compiled=kind.compiled,
    )


def _completed(fallback: Fallback, ran: StepOperations, layers: LayerNames) -> Fallback:
    names = (layers.spelt(name) for name in fallback.names)
    return replace(
        fallback,
        names=tuple(dict.fromkeys(names)),
        python_bytes=ran.python_bytes.get(fallback.operation),
    )


def _count(operations: tuple[Operation, ...], registry: Registry) -> dict[str, dict[str, int]]:
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for operation in operations:
        counts[operation.device][original_type(operation.kind.type, registry)] += 1
    return {device: dict(counts[device].most_common()) for device in sorted(counts)}


def _compiled_parts(operations: Collection[Operation]) -> tuple[CompiledPart, ...]:
    """Returns the parts of a step that XLA compiles, the largest first."""
    parts = Counter((op.compiled_in, op.device) for op in operations if op.compiled_in)
    return tuple(CompiledPart(name, device, count) for (name, device), count in parts.most_common())


def not_compilable(operations: Collection[Operation], refuses: Refuses) -> tuple[str, ...] | None:
    """Returns the operation types outside the compiled parts for which XLA has no kernel."""
    if not any(operation.compiled_in for operation in operations):
        return None
    outside = {
        (operation.kind.type, operation.device)
        for operation in operations
        if not operation.compiled_in and not is_input(operation.kind.type)
    }
    answers = {type_: refuses(type_, device) for type_, device in outside}
    if None in answers.values():
        return None
    return tuple(sorted(type_ for type_, refused in answers.items() if refused))
