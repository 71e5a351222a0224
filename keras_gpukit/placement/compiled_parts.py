"""Finds the parts of a step that XLA compiles, and the operations that it cannot compile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection

from keras_gpukit.records.operations import Operation
from keras_gpukit.records.placement import CompiledPart
from keras_gpukit.rules.compute.placement_causes import is_input

Refuses = Callable[[str, str], bool | None]


def compiled_parts(operations: Collection[Operation]) -> tuple[CompiledPart, ...]:
    """Returns the parts of a step that XLA compiles, the largest first."""
    parts = Counter((each.compiled_in, each.device) for each in operations if each.compiled_in)
    return tuple(CompiledPart(name, device, count) for (name, device), count in parts.most_common())


def not_compilable(operations: Collection[Operation], refuses: Refuses) -> tuple[str, ...] | None:
    """Returns the operation types outside the compiled parts for which XLA has no kernel.

    Args:
        operations: Operations of the step, before compilation.
        refuses: Returns whether XLA cannot compile an operation type for a device; None if
            unknown.

    Returns:
        Operation types in alphabetical order; None if unknown, or if XLA compiles nothing.
    """
    if not any(each.compiled_in for each in operations):
        return None
    outside = {
        (each.kind.type, each.device)
        for each in operations
        if not each.compiled_in and not is_input(each.kind.type)
    }
    answers = {type_: refuses(type_, device) for type_, device in outside}
    if None in answers.values():
        return None
    return tuple(sorted(type_ for type_, refused in answers.items() if refused))
