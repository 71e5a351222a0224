"""Forecasts the step time on more GPUs, from a run's figures and a ring model of the exchange."""

from __future__ import annotations

import math
from collections.abc import Sequence

from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.scaling import Link, ScalingBasis, ScalingForecast, ScalingPoint
from keras_gpukit.rules.cluster.comparison import exchange_s
from keras_gpukit.rules.cluster.workers import replica_batch


def basis_of(summary: RunSummary) -> ScalingBasis:
    """Returns the figures of one replica of a run, by its first worker's record."""
    environment = summary.environment
    replicas = environment.replicas or 1
    exchanged_s = exchange_s(summary.workers) if summary.workers and replicas > 1 else None
    unknown: dict[str, str] = {}
    step_s = summary.step_time_s
    if step_s is None:
        unknown["step_s"] = "The record has no step time: no step was measured."
    elif replicas > 1 and exchanged_s is None:
        step_s = None
        unknown["step_s"] = (
            f"The step of {replicas} replicas contains an exchange that was not measured: "
            "monitor every worker, or give the step time of one GPU."
        )
    elif exchanged_s is not None:
        step_s = max(step_s - exchanged_s, 0.0)
    if environment.trainable_bytes is None:
        unknown["gradient_bytes"] = (
            "The record has no size of the trainable weights: an older version wrote it, or the "
            "model was not built."
        )
    batch = replica_batch(summary)
    if batch is None:
        unknown["batch"] = "The record has no examples a step."
    return ScalingBasis(
        step_s,
        environment.trainable_bytes,
        batch,
        exchanged_s,
        replicas,
        environment.workers,
        on_cpu=step_s is not None and bool(environment.versions) and not environment.gpus,
        unknown=unknown,
    )


def latency_s(summary: RunSummary) -> float | None:
    """Returns half the shortest round trip that workers measured; None without one."""
    members = summary.workers.members if summary.workers else ()
    trips_s = [trip.lowest_s for member in members for trip in member.round_trips]
    return min(trips_s) / 2 if trips_s else None


LINKS: dict[str, Link] = {
    "nvlink-a100": Link(
        300e9, source="NVIDIA A100 data sheet: NVLink, 600 GB/s in both directions together"
    ),
    "nvlink-h100": Link(
        450e9, source="NVIDIA H100 data sheet: NVLink, 900 GB/s in both directions together"
    ),
    "pcie-4": Link(
        32e9, source="NVIDIA A100 data sheet: PCIe Gen4, 64 GB/s in both directions together"
    ),
    "pcie-5": Link(
        64e9, source="NVIDIA H100 data sheet: PCIe Gen5, 128 GB/s in both directions together"
    ),
    "infiniband-hdr": Link(25e9, source="InfiniBand Trade Association roadmap: HDR 4x, 200 Gb/s"),
    "infiniband-ndr": Link(50e9, source="InfiniBand Trade Association roadmap: NDR 4x, 400 Gb/s"),
    "ethernet-10g": Link(1.25e9, source="IEEE 802.3: 10 Gb/s"),
    "ethernet-25g": Link(3.125e9, source="IEEE 802.3: 25 Gb/s"),
    "ethernet-100g": Link(12.5e9, source="IEEE 802.3: 100 Gb/s"),
}
"""Published bandwidths of links, in one direction, in bytes per second.

They are peaks. NCCL reaches less; nccl-tests measures how much. Latencies are missing, since the
makers publish none.
"""

_ALWAYS = (
    "Each GPU keeps its batch, so the global batch grows with the GPUs.",
    "Gradients are exchanged in one ring all-reduce after the backward pass; overlap with it would "
    "make steps shorter.",
    "Bandwidths are reached as stated. Published peaks are not: nccl-tests measures what is.",
    "Input, computation and GPUs are alike everywhere: there is no straggler.",
)


def forecast(
    basis: ScalingBasis,
    inside: Link,
    between: Link,
    *,
    gpus: Sequence[int],
    gpus_per_node: int,
    links_per_node: int = 1,
    run: str | None = None,
) -> ScalingForecast:
    """Returns the forecast for each number of GPUs."""
    points = tuple(
        _point(basis, inside, between, count, gpus_per_node, links_per_node) for count in gpus
    )
    assumptions = [*_ALWAYS]
    used = {"inside nodes": inside if gpus_per_node > 1 else None, "between nodes": between}
    for place, link in used.items():
        if link is not None and link.bandwidth_bytes_per_s and link.latency_s is None:
            assumptions.append(
                f"The latency {place} is unknown and left out: steps take longer than shown."
            )
    return ScalingForecast(
        basis, inside, between, gpus_per_node, links_per_node, points, tuple(assumptions), run
    )


def ring_s(size_bytes: float, members: int, bandwidth: float, latency_s: float | None) -> float:
    """Returns how long a ring all-reduce takes, in seconds.

    Args:
        size_bytes: Size of the reduced data.
        members: Number of members of the ring.
        bandwidth: Bandwidth of each link in one direction, in bytes per second.
        latency_s: Latency of one message; None counts as 0.
    """
    passes = 2 * (members - 1)
    return passes / members * size_bytes / bandwidth + passes * (latency_s or 0.0)


def measured_link(basis: ScalingBasis, latency_s: float | None, latency_source: str) -> Link:
    """Returns the link that the run's exchange used, with the bandwidth that the exchange implies.

    The bandwidth is unknown if the exchange was not measured, or used links of two kinds.
    """
    unknown = Link(None, latency_s, "unknown", latency_source)
    size, exchange_s, members = basis.gradient_bytes, basis.exchange_s, basis.replicas
    if size is None or exchange_s is None or members < 2:
        return unknown
    if 1 < basis.workers < members:
        return unknown
    passes = 2 * (members - 1)
    transfer_s = exchange_s - passes * (latency_s or 0.0)
    if transfer_s <= 0:
        return unknown
    bandwidth = passes / members * size / transfer_s
    source = f"the run's exchange over {members} replicas"
    return Link(bandwidth, latency_s, source, latency_source)


def _point(
    basis: ScalingBasis,
    inside: Link,
    between: Link,
    gpus: int,
    gpus_per_node: int,
    links_per_node: int,
) -> ScalingPoint:
    local, nodes = min(gpus, gpus_per_node), math.ceil(gpus / gpus_per_node)
    missing = [] if gpus == 1 or basis.gradient_bytes is not None else ["the size of the gradients"]
    parts_s = []
    for place, link, members, parallel in (
        ("inside nodes", inside, local, 1),
        ("between nodes", between, nodes, links_per_node),
    ):
        if members == 1:
            continue
        if link.bandwidth_bytes_per_s is None:
            missing.append(f"the bandwidth {place}")
        elif basis.gradient_bytes is not None:
            bandwidth = link.bandwidth_bytes_per_s * parallel
            parts_s.append(ring_s(basis.gradient_bytes, members, bandwidth, link.latency_s))
    exchange_s = None if missing else sum(parts_s)
    if basis.step_s is None:
        missing.append("the step time of one GPU")
    if exchange_s is None or basis.step_s is None:
        because = f"unknown: {', '.join(missing)}"
        return ScalingPoint(gpus, nodes, exchange_s, unknown_because=because)
    step_s = basis.step_s + exchange_s
    rate = None if basis.batch is None else basis.batch * gpus / step_s
    return ScalingPoint(gpus, nodes, exchange_s, step_s, basis.step_s / step_s, rate)
