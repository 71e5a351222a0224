"""How near a run is to its GPU's limits, in a sentence."""

from __future__ import annotations

from keras_gpukit.records.run import RunSummary
from keras_gpukit.reports import units
from keras_gpukit.rules.compute.roofline import Roofline, roofline_of

_MOST = 2


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
    return f"{words}; {busy}: {', '.join(parts[:_MOST])}" if parts else words
