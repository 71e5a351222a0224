"""What xprof says of a profile."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class XprofKernel:
    """A kernel, as xprof sums it up over all of a profile.

    Attributes:
        name: As it is compiled.
        time_s: All launches.
        count: Launches.
        tensor_core: Whether xprof knows it for one that uses Tensor Cores.
    """

    name: str
    time_s: float
    count: int
    tensor_core: bool


@dataclass(frozen=True)
class XprofRecord:
    """What xprof, and so TensorBoard's Profile tab, says of a profile.

    Attributes:
        steps: Steps it found.
        step_time_s: Their mean time; None where it found none.
        input_fraction: Part of it spent waiting for input, 0 to 1. On a GPU xprof leaves out what
            the host waits.
        host_compute_s: Mean time per step of host compute; between a step's operations too, so that
            it holds most of what is "idle" in a `ProfileRecord`.
        bottleneck: "host", "device", "both" or "unknown".
        statement: In words.
        kernels: The longest first.
        memory_peaks_bytes: By allocator, the peak while it was captured.
    """

    steps: int
    step_time_s: float | None = None
    input_fraction: float | None = None
    host_compute_s: float | None = None
    bottleneck: str | None = None
    statement: str | None = None
    kernels: tuple[XprofKernel, ...] = ()
    memory_peaks_bytes: dict[str, int] = field(default_factory=dict)
