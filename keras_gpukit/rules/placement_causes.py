"""Whether an operation is where it was expected, and why it is not."""

from __future__ import annotations

from collections.abc import Collection
from typing import get_args

from keras_gpukit.records.operations import OperationKind
from keras_gpukit.records.placement import FallbackCause, PlacedOperations
from keras_gpukit.rules.cpu_causes import (
    Registry,
    Why,
    explain,
    is_input,
    kept_by_graph,
    not_for_gpu,
)
from keras_gpukit.rules.requested_device import is_met, is_missing, no_such_device

_CAUSES: tuple[FallbackCause, ...] = get_args(FallbackCause)
_USUAL = ("requested", "host memory")


def judge_placement(
    kind: OperationKind,
    device: str,
    registry: Registry,
    *,
    devices: Collection[str],
    predicted: bool,
    trust_requests: bool,
) -> tuple[bool, Why | None]:
    """Returns whether operations are where they were expected, and cause and reason if known.

    They are expected where they were asked to be and, where no device was asked for, on a GPU if
    there is one. A reason is also returned for those that were asked onto the CPU.

    Args:
        kind: What they are.
        device: Where they run.
        registry: Returns the kernels of an operation type.
        devices: Those that TensorFlow has.
        predicted: Whether there is no GPU, and what one would leave to the CPU is asked for.
        trust_requests: Whether a request for the CPU was meant as one.
    """
    on_cpu = device.startswith("CPU")
    if kind.ignored_request and not is_met(kind.ignored_request, device):
        return False, ("compiled", _ignored(kind, device))
    if is_missing(kind.requested, devices):
        return False, ("no such device", no_such_device(kind.requested, device, devices))
    if kind.requested and not is_met(kind.requested, device):
        known = not_for_gpu(kind, registry) if on_cpu else None
        return False, known or kept_by_graph(kind, device, registry)
    has_gpu = any(each.startswith("GPU") for each in devices)
    if not on_cpu or is_input(kind.type) or not (has_gpu or predicted):
        return True, None
    why = explain(kind, registry, predicted=predicted, trust_requests=trust_requests)
    if why is None:
        return predicted, None  # without a GPU everything is on the CPU, and rightly so
    return why[0] == "requested", why


def by_likely_mistake(row: PlacedOperations) -> tuple[int, int]:
    """Sorts rows: mistakes first, then what has no known reason, what is usual, and the rest."""
    if row.cause in _USUAL:
        return len(_CAUSES) + 1 + _USUAL.index(row.cause), -row.count
    if row.cause is not None:
        return _CAUSES.index(row.cause), -row.count
    return len(_CAUSES) + (3 if row.expected else 0), -row.count


def _ignored(kind: OperationKind, device: str) -> str:
    return (
        f"XLA compiles it together with the operations around it, which run on {device}; the "
        f"request for {kind.ignored_request} has no effect. Use compile(jit_compile=False) to "
        "place operations one by one."
    )
