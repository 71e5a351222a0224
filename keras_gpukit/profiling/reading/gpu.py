"""Activity of the GPUs: kernels, collectives and copies."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import reduce
from operator import attrgetter, or_

import numpy as np

from keras_gpukit.profiling.reading.events import Mask, Plane, Space
from keras_gpukit.profiling.reading.kinds import (
    is_copy,
    is_host_to_device,
    kind_of,
    uses_tensor_cores,
)
from keras_gpukit.profiling.reading.spans import NOTHING, Spans
from keras_gpukit.records.profile import DeviceProfile

PLANE = "/device:GPU:"
# Prefix of the lines of a GPU's streams. Its other lines are derived from them.
_STREAM = "Stream"
_SIZE = re.compile(r"size:(\d+)")


@dataclass(frozen=True)
class GPU:
    """Classified events of one GPU's streams, and the time in which each class ran.

    Collectives are kernels that exchange data between GPUs. Other kernels are computing.
    """

    plane: Plane
    kernels: Mask
    computing: Mask
    compute: Spans
    collectives: Spans
    from_host: Spans
    other_copies: Spans


@dataclass(frozen=True)
class GPUs:
    """All GPUs, and the time in which any of them was active."""

    each: tuple[GPU, ...]
    compute: Spans
    collectives: Spans
    from_host: Spans
    other_copies: Spans

    @property
    def computing(self) -> Spans:
        """Time in which anything other than copies from the host ran."""
        return self.compute | self.collectives | self.other_copies


def gpus_of(space: Space) -> GPUs:
    """Classifies the activity of the GPUs; without a GPU, everything is empty."""
    each = tuple(_sort_out(plane) for plane in space.named(PLANE))
    of_any = {
        name: reduce(or_, map(attrgetter(name), each), NOTHING)
        for name in ("compute", "collectives", "from_host", "other_copies")
    }
    return GPUs(each, **of_any)


def profile_of(gpu: GPU, counted: Spans) -> DeviceProfile:
    """Summarizes one GPU over the time of the steps."""
    events = gpu.plane.events
    kernels = gpu.kernels & counted.holds(events.begin_ps)
    in_tensor_cores = kernels & events.of(lambda name: bool(uses_tensor_cores(name)))
    kernels_ps = events.duration_ps[kernels].astype(float).sum()
    busy = gpu.compute | gpu.collectives | gpu.from_host | gpu.other_copies
    total_ps = counted.total_ps
    capability = [gpu.plane.stats.get(f"compute_cap_{part}") for part in ("major", "minor")]
    return DeviceProfile(
        device=gpu.plane.name.removeprefix("/device:"),
        busy_fraction=(busy & counted).total_ps / total_ps,
        kernels=int(np.count_nonzero(kernels)),
        host_to_device_bytes=_copied_bytes(gpu, counted),
        tensor_core_fraction=(
            float(events.duration_ps[in_tensor_cores].astype(float).sum() / kernels_ps)
            if kernels_ps
            else None
        ),
        compute_capability=(
            ".".join(map(str, capability)) if all(isinstance(n, int) for n in capability) else None
        ),
    )


def _sort_out(plane: Plane) -> GPU:
    events = plane.events
    on_stream = events.on(lambda name: name.startswith(_STREAM))
    copies, collectives = events.of(is_copy), events.of(lambda name: kind_of(name) == "collective")
    from_host = events.of(is_host_to_device)
    kernels = on_stream & ~copies
    return GPU(
        plane,
        kernels,
        computing=kernels & ~collectives,
        compute=Spans.of(events, kernels & ~collectives),
        collectives=Spans.of(events, kernels & collectives),
        from_host=Spans.of(events, on_stream & from_host),
        other_copies=Spans.of(events, on_stream & copies & ~from_host),
    )


def _copied_bytes(gpu: GPU, counted: Spans) -> int | None:
    events = gpu.plane.events
    copies = events.of(is_host_to_device) & counted.holds(events.begin_ps)
    sizes = [
        _SIZE.search(str(events.stats[index].get("memcpy_details", "")))
        for index in np.flatnonzero(copies)
    ]
    known = [int(size[1]) for size in sizes if size]
    return sum(known) if known and len(known) == len(sizes) else None
