"""The parts of a step that XLA compiles, and what in them it cannot compile."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection

from keras_gpukit.records.operations import Operation
from keras_gpukit.records.placement import CompiledPart

Refuses = Callable[[str, str], bool | None]


def compiled_parts(operations: Collection[Operation], refuses: Refuses) -> tuple[CompiledPart, ...]:
    """Returns the parts of a step that XLA compiles, the largest first.

    Args:
        operations: Those of the step, before compilation.
        refuses: Returns whether XLA cannot compile a type of operation for a device; None where
            that is unknown.
    """
    by_call: defaultdict[tuple[str, str], list[Operation]] = defaultdict(list)
    for each in operations:
        if each.compiled_in:
            by_call[each.compiled_in, each.device].append(each)
    parts = (_part(name, device, inside, refuses) for (name, device), inside in by_call.items())
    return tuple(sorted(parts, key=lambda part: -part.operations))


def _part(name: str, device: str, inside: list[Operation], refuses: Refuses) -> CompiledPart:
    answers = {each: refuses(each, device) for each in {each.kind.type for each in inside}}
    refused = tuple(sorted(each for each, answer in answers.items() if answer))
    return CompiledPart(name, device, len(inside), None if None in answers.values() else refused)
