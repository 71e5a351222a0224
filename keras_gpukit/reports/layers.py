"""A captured step: its time by layer, in words and as tables, and how near it is to the limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from keras_gpukit.records.profile import Kind, LayerProfile, ProfileRecord
from keras_gpukit.records.run import RunSummary
from keras_gpukit.reports import units
from keras_gpukit.reports.tables import Table
from keras_gpukit.rules.compute.roofline import Roofline, roofline_of
from keras_gpukit.rules.compute.slow_kernels import plain_name

Name = TypeVar("Name", bound=str)
KINDS: dict[Kind, str] = {"matmul": "matrix product"}
"""Kinds of computation that reports name otherwise than records."""
_LEAST_SHARE = 0.01
_PARTS, _LAYERS, _KINDS = 4, 3, 3
_MOST_ROWS = 500
_MOST_KERNELS = 20


def captured_step(profile: ProfileRecord) -> str | None:
    """Returns the largest parts of a captured step, and its largest layers; None without steps."""
    if not profile.step_time_s:
        return None
    step = f"A captured step of {units.duration(profile.step_time_s)}: "
    step += shares(profile.parts_s, profile.step_time_s, _PARTS)
    if not profile.layers:
        return step
    times_s = {name: total.time_s for name, _, total in kinds_of_layers(profile)}
    return f"{step}. By kind of layer: {shares(times_s, sum(times_s.values()), _LAYERS)}"


def shares(times_s: Mapping[Name, float], whole_s: float, most: int) -> str:
    """Returns the largest parts of a time with their shares: "convolution 66 %, cast 12 %"."""
    known = sorted(times_s.items(), key=lambda part: -part[1])[:most]
    return ", ".join(
        f"{name} {units.percentage(spent_s / whole_s)}"
        for name, spent_s in known
        if spent_s >= _LEAST_SHARE * whole_s
    )


def kinds_of(kinds_s: Mapping[Kind, float], most: int = _KINDS) -> str:
    """Returns the largest kinds of computation with their shares, in plain words."""
    named = {KINDS.get(kind, str(kind)): spent_s for kind, spent_s in kinds_s.items()}
    return shares(named, sum(named.values()) or 1.0, most)


def named_layers(profile: ProfileRecord) -> list[tuple[str, LayerProfile]]:
    """Returns the layers with their paths, without the model's name where all are in one model."""
    models = {part.path.partition("/")[0] for part in profile.layers if part.role == "layer"}
    prefix = f"{models.pop()}/" if len(models) == 1 else ""
    return [
        (part.path.removeprefix(prefix) if part.role == "layer" else part.path, part)
        for part in profile.layers
    ]


def kinds_of_layers(profile: ProfileRecord) -> list[tuple[str, int, LayerProfile]]:
    """Sums layers of the same kind up, which all but their numbers name alike, the largest first.

    Returns:
        Name, number of layers, and their sums.
    """
    found: dict[str, list[tuple[str, LayerProfile]]] = {}
    for name, part in named_layers(profile):
        kind = plain_name(part.path) if part.role == "layer" else part.path
        found.setdefault(kind, []).append((name, part))
    kinds = [
        (kind if len(of) > 1 else of[0][0], len(of), together([layer for _, layer in of]))
        for kind, of in found.items()
    ]
    return sorted(kinds, key=lambda kind: -kind[2].time_s)


def together(layers: Sequence[LayerProfile]) -> LayerProfile:
    """Sums layers up to one, without a name."""
    time_s = sum(layer.time_s for layer in layers)
    kinds = dict.fromkeys(kind for layer in layers for kind in layer.kinds_s)
    cores_s = [
        layer.tensor_core_fraction * layer.time_s
        for layer in layers
        if layer.tensor_core_fraction is not None
    ]
    return LayerProfile(
        path="",
        role=layers[0].role,
        time_s=time_s,
        backward_s=sum(layer.backward_s for layer in layers),
        kinds_s={kind: sum(layer.kinds_s.get(kind, 0.0) for layer in layers) for kind in kinds},
        kernels=sum(layer.kernels for layer in layers),
        tensor_core_fraction=sum(cores_s) / time_s if cores_s and time_s else None,
    )


def kinds_table(profile: ProfileRecord, most: int) -> Table:
    """Returns the kinds of layers that take the most time, and what they mostly compute."""
    whole_s = sum(layer.time_s for layer in profile.layers)
    rows = tuple(
        (
            f"{name} ×{count:,}" if count > 1 else name,
            units.percentage(total.time_s / whole_s),
            kinds_of(total.kinds_s, 1),
            tensor_cores(total),
        )
        for name, count, total in kinds_of_layers(profile)[:most]
        if total.time_s >= _LEAST_SHARE * whole_s
    )
    return Table(("kind of layer", "share", "mostly", "Tensor Cores"), rows)


def layers_table(profile: ProfileRecord) -> Table:
    """Returns the time of each layer, in the model's order."""
    whole_s = sum(layer.time_s for layer in profile.layers)
    rows = tuple(
        (
            name,
            units.duration(layer.time_s),
            units.duration(layer.backward_s),
            units.percentage(layer.time_s / whole_s),
            units.number(layer.kernels),
            tensor_cores(layer),
            kinds_of(layer.kinds_s),
        )
        for name, layer in named_layers(profile)
    )
    heads = ("layer", "time", "of it backward", "share", _launched(profile), "Tensor Cores")
    more = len(rows) - _MOST_ROWS
    note = f"And {more:,} more layers." if more > 0 else ""
    return Table(
        (*heads, "kinds"), rows[:_MOST_ROWS], note, "layer, kind" if len(rows) > 20 else ""
    )


def kernels_table(profile: ProfileRecord) -> Table:
    """Returns the largest kernels of the layers that take the most time, with their own names."""
    longest = sorted(named_layers(profile), key=lambda layer: -layer[1].time_s)[:_MOST_ROWS]
    steps = max(profile.steps, 1)
    rows = tuple(
        (
            name,
            KINDS.get(kernel.kind, kernel.kind),
            units.duration(kernel.time_s / steps),
            units.percentage(kernel.share),
            units.number(kernel.count / steps),
            kernel.operation or "",
            kernel.name,
        )
        for name, layer in longest
        for kernel in layer.largest[:_MOST_KERNELS]
    )
    what = _launched(profile)
    heads = ("layer", "kind", "time per step", "share of the layer", f"{what} per step")
    return Table((*heads, "operation", "its own name"), rows)


def tensor_cores(layer: LayerProfile) -> str:
    """Returns the share of a layer's time in Tensor Cores; "" without a GPU."""
    return units.known(layer.tensor_core_fraction, units.percentage, "")


def _launched(profile: ProfileRecord) -> str:
    return "kernels" if profile.devices else "operations"


_LONGEST = 2


def near_the_limits(summary: RunSummary) -> str | None:
    """Returns the sentence; None if it is unknown, or the run has no GPU."""
    found = roofline_of(summary)
    return f"{achieved(found)}: {limited_by(found)}." if isinstance(found, Roofline) else None


def achieved(found: Roofline) -> str:
    """Formats the rate: "590 TFLOP/s, 60 % of the GPU's 989 in bfloat16"."""
    peak = f"the {units.number(found.peak_tflops)} that keras-gpukit bench reached"
    if not found.is_measured:
        peak = f"the GPU's {units.number(found.peak_tflops)}"
    share = units.percentage(found.share)
    return (
        f"{units.number(found.tflops)} TFLOP/s, {share} of {peak} in "
        f"{' and '.join(found.precisions)}"
    )


def limited_by(found: Roofline) -> str:
    """Says what limits the steps."""
    step = units.duration(found.step_s)
    busy = f"a step takes {step}"
    if found.busy_s is not None:
        busy = f"the GPU computes {units.duration(found.busy_s)} of each {step} step"
    parts = [f"{part} {units.duration(spent_s)}" for part, spent_s in found.longest_s.items()]
    if found.limit == "compute":
        return "compute-bound"
    if found.limit == "memory":
        moved = units.known(found.moved_bytes, units.size)
        moving = units.known(found.moving_s, units.duration)
        return f"memory-bound, moving {moved} takes {moving} at the peak, and {busy}"
    if found.limit == "input":
        return f"input-bound, {busy}"
    if found.limit == "launches":
        return f"launch-bound, {busy}"
    if found.limit == "idle":
        return ", ".join(["mostly idle", busy, *parts[:1]])
    words = "neither products nor memory traffic explain most of it"
    if found.moving_s is None:
        words = "products do not explain most of it, and memory traffic under XLA is unknown"
    return f"{words}; {busy}: {', '.join(parts[:_LONGEST])}" if parts else words
