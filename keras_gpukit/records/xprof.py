"""Figures of a profile that xprof computed."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class XprofKernel:
    """A kernel, as xprof sums it up over a whole profile.

    Attributes:
        name: Name of the compiled kernel.
        time_s: Seconds of all launches.
        count: Number of launches.
        tensor_core: Whether xprof lists the kernel as using Tensor Cores.
    """

    name: str
    time_s: float
    count: int
    tensor_core: bool


@dataclass(frozen=True)
class XprofRecord:
    """Figures of a profile that xprof, and so TensorBoard's Profile tab, shows.

    Attributes:
        steps: Number of steps that xprof found.
        step_time_s: Mean step time, in seconds; None if xprof found no steps.
        input_fraction: Share of the step time spent waiting for input, 0 to 1. On a GPU, xprof
            leaves out the time that the host waits.
        host_compute_s: Mean host compute per step, in seconds. It includes the time between a
            step's operations, and so most of what is "idle" in a `ProfileRecord`.
        bottleneck: "host", "device", "both" or "unknown".
        statement: Conclusion of xprof, in words.
        kernels: Kernels, the longest first.
        memory_peaks_bytes: Peak memory during the capture, by allocator.
    """

    steps: int
    step_time_s: float | None = None
    input_fraction: float | None = None
    host_compute_s: float | None = None
    bottleneck: str | None = None
    statement: str | None = None
    kernels: tuple[XprofKernel, ...] = ()
    memory_peaks_bytes: dict[str, int] = field(default_factory=dict)
