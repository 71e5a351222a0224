"""Whether operations run on the expected device, and if not, why."""

from __future__ import annotations

from collections.abc import Collection
from typing import get_args

from keras_gpukit.records.operations import PYTHON_OPERATIONS, OperationKind
from keras_gpukit.records.placement import FallbackCause, PlacedOperations
from keras_gpukit.rules.compute.cpu_causes import (
    Registry,
    Why,
    explain,
    is_input,
    kept_by_graph,
    not_for_gpu,
)
from keras_gpukit.rules.setup.requested_device import is_met, is_missing, no_such_device

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
    """Returns whether operations run on the expected device, with cause and reason if known.

    The expected device is the requested one. If none was requested, it is a GPU if there is one.
    Operations that were requested on the CPU get a cause and a reason too.

    Args:
        kind: Kind of the operations: their type, dtypes and requested device.
        device: Device that they run on, such as "CPU:0".
        registry: Returns the kernels of an operation type.
        devices: Devices that TensorFlow lists.
        predicted: Whether there is no GPU, and the answer predicts what a run on one would do.
        trust_requests: Whether a request for the CPU is deliberate, not just for lack of a GPU.
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
    runs_on_host = on_cpu or kind.type in PYTHON_OPERATIONS
    if not runs_on_host or is_input(kind.type) or not (has_gpu or predicted):
        return True, None
    why = explain(kind, registry, predicted=predicted, trust_requests=trust_requests)
    if why is None:
        return predicted, None  # without a GPU, every operation is rightly on the CPU
    return not on_cpu or why[0] == "requested", why


def by_likely_mistake(row: PlacedOperations) -> tuple[int, int]:
    """Returns a sort key: likely mistakes, unknown reasons, usual causes, then all other rows."""
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
