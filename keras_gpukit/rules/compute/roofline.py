"""How near a run is to what its GPU can reach, and what keeps it from that."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from keras_gpukit.records.environment import Environment
from keras_gpukit.records.profile import StepPart
from keras_gpukit.records.run import Ceilings, RunSummary
from keras_gpukit.rules.compute.precision import TF32_FROM, lowest_capability
from keras_gpukit.rules.compute.profile_shares import computed_s, launches_of
from keras_gpukit.rules.input.input_bound import is_input_bound

# Dense figures of NVIDIA's data sheets and white papers; those marked "with sparsity" there are
# halved. Float64 is that of Tensor Cores where they have it. Tensor Cores add in float32, as
# TensorFlow's products do; GeForce cards are half as fast then. Links: docs/explanation/flops.md.
_COLUMNS = ("float64", "float32", "TF32", "float16", "bfloat16")
_CARDS: dict[str, tuple[tuple[float | None, ...], float]] = {
    # Pattern of the name: TFLOP/s by precision, None if it lacks one; GB/s.
    r"B200": ((37, 75, 1100, 2250, 2250), 7700),
    r"H200": ((67, 67, 494.5, 989.5, 989.5), 4800),
    r"H200 NVL": ((60, 60, 417.5, 835.5, 835.5), 4800),
    r"H100 80GB HBM3|H100 SXM5?( 80GB)?": ((67, 67, 494.5, 989.5, 989.5), 3350),
    r"H100 PCIe": ((51, 51, 378, 756, 756), 2000),
    r"H100 NVL": ((60, 60, 417.5, 835.5, 835.5), 3900),
    r"A100-SXM4-40GB|A100-PCIE-40GB": ((19.5, 19.5, 156, 312, 312), 1555),
    r"A100-SXM4-80GB": ((19.5, 19.5, 156, 312, 312), 2039),
    r"A100 80GB PCIe": ((19.5, 19.5, 156, 312, 312), 1935),
    r"A30": ((10.3, 10.3, 82, 165, 165), 933),
    r"A10": ((None, 31.2, 62.5, 125, 125), 600),
    r"A10G": ((None, 35, 35, 70, 70), 600),
    r"A40": ((None, 37.4, 74.8, 149.7, 149.7), 696),
    r"L4": ((None, 30.3, 60, 121, 121), 300),
    r"L40": ((None, 90.5, 90.5, 181, 181), 864),
    r"L40S": ((None, 91.6, 183, 362, 362), 864),
    r"T4": ((None, 8.1, None, 65, None), 320),
    r"V100-SXM[23]-\d+GB(-LS)?": ((7.8, 15.7, None, 125, None), 900),
    r"V100-PCIE-\d+GB": ((7, 14, None, 112, None), 900),
    r"V100S-PCIE-32GB": ((8.2, 16.4, None, 130, None), 1134),
    r"P100-PCIE-16GB": ((4.7, 9.3, None, 18.7, None), 732),
    r"P100-SXM2-16GB": ((5.3, 10.6, None, 21.2, None), 732),
    r"RTX A6000": ((None, 38.7, 77.4, 154.8, 154.8), 768),
    r"RTX 6000 Ada Generation": ((None, 91.1, 182.1, 364.2, 364.2), 960),
    r"RTX 3080": ((None, 29.8, 29.8, 59.5, 59.5), 760),
    r"RTX 3090": ((None, 35.6, 35.6, 71, 71), 936),
    r"RTX 3090 Ti": ((None, 40, 40, 80, 80), 1008),
    r"RTX 4080": ((None, 48.7, 48.7, 97.5, 97.5), 717),
    r"RTX 4090": ((None, 82.6, 82.6, 165.2, 165.2), 1008),
    r"RTX 5090": ((None, 104.8, 104.8, 209.5, 209.5), 1792),
}
_BRAND = re.compile(r"^(NVIDIA )?(GeForce |Tesla )?")


def data_sheet(name: str) -> Ceilings | None:
    """Returns the figures of a GPU; None for one that is not known, and for a part of one (MIG)."""
    model = _BRAND.sub("", name)
    for pattern, (tflops, gb_per_s) in _CARDS.items():
        if re.fullmatch(pattern, model):
            known = zip(_COLUMNS, tflops, strict=True)
            return Ceilings({name: peak for name, peak in known if peak is not None}, gb_per_s)
    return None


MOSTLY = 0.5
"""Share of the time that a limit must explain. Our choice: large products reach 70 to 80 % of a
data sheet's figures, and models less."""
LEAST_NAMED = 0.05
LEAST_WAIT = 0.1
WAITS: tuple[StepPart, ...] = (
    *("input wait", "host to device", "other copies", "collectives", "host compute"),
)
Limit = Literal["compute", "memory", "launches", "input", "idle", "unknown"]


@dataclass(frozen=True)
class Roofline:
    """One GPU's part of a step against the limits of the GPU.

    Attributes:
        tflops: TFLOP/s over the mean step time.
        precisions: Precisions of the products, that of most operations first, without those that
            take under 5 % of the time at the peak.
        peak_tflops: Highest rate of the GPU in this mix of precisions.
        is_measured: Whether `keras-gpukit bench` measured the limits, rather than NVIDIA's figures.
        moved_bytes: Bytes that the operations read and write; None if unknown, as under XLA.
        moving_s: Shortest time in which the GPU can move them.
        busy_s: Time per step in which the GPU computed; None without a profile.
        longest_s: If the limit is unknown, seconds per step by kind of computation, and if the GPU
            idles, those of what it waits for, the longest first; empty without a profile.
        limit: Cause that limits the step: products, memory, launches of kernels, the input, or
            something else that lets the GPU idle.
    """

    flops: int
    step_s: float
    tflops: float
    precisions: tuple[str, ...]
    peak_tflops: float
    ceilings: Ceilings
    is_measured: bool
    moved_bytes: int | None
    moving_s: float | None
    busy_s: float | None
    longest_s: dict[str, float]
    limit: Limit

    @property
    def share(self) -> float:
        """Share of what the GPU reaches at most, 0 to 1."""
        return self.tflops / self.peak_tflops


def roofline_of(summary: RunSummary) -> Roofline | str | None:
    """Returns how near a run is to its GPU's limits; the reason if that is unknown.

    None for a run without a GPU, and for one whose operations were not counted.
    """
    record, environment, step_s = summary.flops, summary.environment, summary.step_time_s
    if record is None or not environment.gpus or not step_s:
        return None
    if record.unknown_because is not None:
        return f"the operations of a step: {record.unknown_because}"
    names = {gpu.name or "" for gpu in environment.gpus}
    is_part = any((gpu.uuid or "").startswith("MIG-") for gpu in environment.gpus)
    name = names.pop() if len(names) == 1 and not is_part else ""
    ceilings = record.ceilings or data_sheet(name)
    if ceilings is None:
        return f"the peak of {name or 'these GPUs'}, which `keras-gpukit bench` measures"
    gpus = max((environment.replicas or 1) // environment.workers, 1)
    flops = {
        _precision(dtype, environment, ceilings): count / gpus
        for dtype, count in sorted(record.by_dtype.items(), key=lambda item: -item[1])
        if count
    }
    if not flops:
        return "the peak of a step without products"
    if not flops.keys() <= ceilings.tflops.keys():
        return f"the peak of {name} in {', '.join(flops.keys() - ceilings.tflops.keys())}"
    at_peak_s = {
        precision: 1e-12 * count / ceilings.tflops[precision] for precision, count in flops.items()
    }
    least_s = sum(at_peak_s.values())
    moved = record.moved_bytes
    # What XLA fuses moves less than its operations would one by one.
    moved = None if environment.jit_compile or moved is None else moved // gpus
    moving_s = None if moved is None else 1e-9 * moved / ceilings.device_gb_per_s
    total, limit = sum(flops.values()), _limit(summary, least_s, moving_s or 0.0)
    return Roofline(
        flops=round(total),
        step_s=step_s,
        tflops=1e-12 * total / step_s,
        precisions=tuple(
            precision for precision in flops if at_peak_s[precision] >= LEAST_NAMED * least_s
        ),
        peak_tflops=1e-12 * total / least_s,
        ceilings=ceilings,
        is_measured=record.ceilings is not None,
        moved_bytes=moved,
        moving_s=moving_s,
        busy_s=_busy_s(summary),
        longest_s=_longest_s(summary, limit),
        limit=limit,
    )


def _precision(dtype: str, environment: Environment, ceilings: Ceilings) -> str:
    """Returns the precision in which the GPU multiplies values of a dtype."""
    if dtype != "float32" or "TF32" not in ceilings.tflops:
        return dtype
    weakest = lowest_capability(environment.gpus)
    has_tf32 = environment.tf32 is not False and (weakest is None or weakest >= TF32_FROM)
    return "TF32" if has_tf32 else dtype


def _busy_s(summary: RunSummary) -> float | None:
    """Returns the time per step in which the GPUs of the run's profile computed."""
    profile = summary.profile
    if profile is None or not profile.devices or not profile.step_time_s:
        return None
    return computed_s(profile)


def _longest_s(summary: RunSummary, limit: Limit) -> dict[str, float]:
    profile = summary.profile
    if profile is None or limit not in ("idle", "unknown"):
        return {}
    found = {str(kind): spent_s for kind, spent_s in profile.kinds_s.items()}
    if limit == "idle":
        least_s = LEAST_WAIT * (summary.step_time_s or 0.0)
        found = {part: s for part, s in profile.parts_s.items() if part in WAITS and s >= least_s}
    return dict(sorted(found.items(), key=lambda part: -part[1]))


def _limit(summary: RunSummary, least_s: float, moving_s: float) -> Limit:
    profile, busy_s, of_s = summary.profile, _busy_s(summary), summary.step_time_s or 0.0
    if profile is not None and busy_s is not None:
        # The profiler slows the launches of kernels down.
        if busy_s < MOSTLY * min(of_s, profile.step_time_s or of_s):
            launches = launches_of(summary)
            waited_s = profile.parts_s.get("input wait", 0.0)
            if launches and launches.limit and launches.fraction * of_s > waited_s:
                return "launches"
            return "input" if waited_s >= MOSTLY * (of_s - busy_s) else "idle"
        of_s = busy_s
    elif is_input_bound(summary):
        return "input"
    if max(least_s, moving_s) < MOSTLY * of_s:
        return "unknown"
    return "compute" if least_s >= moving_s else "memory"
