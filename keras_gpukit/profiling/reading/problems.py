"""What the profiler itself complained about, in words that help."""

from __future__ import annotations

from keras_gpukit.profiling.reading.events import Space
from keras_gpukit.profiling.reading.gpu import PLANE

MOST = 20
_PRIVILEGES = (
    "The driver lets only administrators profile GPUs, so what ran on them is not in the profile. "
    "Set the driver's option NVreg_RestrictProfilingToAdminUsers=0, or start the container with "
    "--cap-add=SYS_ADMIN."
)


def problems_of(space: Space) -> tuple[str, ...]:
    """Returns how many events the profiler dropped, then the first of its errors and warnings."""
    said: list[str] = []
    for plane in space.named(PLANE):
        dropped = plane.stats.get("dropped_traces")
        if dropped:
            device = plane.name.removeprefix("/device:")
            said.append(
                f"The profiler dropped events of {device} ({dropped}): capture fewer steps."
            )
    said += [_PRIVILEGES if "INSUFFICIENT_PRIVILEGES" in text else text for text in space.problems]
    return tuple(dict.fromkeys(said))[:MOST]
