"""Forecasts the step time on more GPUs, from a run's figures and a ring model of the exchange.

A ring all-reduce of B bytes over N members sends 2 (N - 1) / N times B over each link, in 2 (N - 1)
messages one after the other: Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms for
clusters of workstations", Journal of Parallel and Distributed Computing 69(2). With several nodes,
each node first reduces inside, then the nodes exchange, and each node distributes the result
inside, as in Goyal et al. 2017, https://arxiv.org/abs/1706.02677, section 4. The messages of all
GPUs of a node share its links to the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from keras_gpukit.records.scaling import Link, ScalingBasis, ScalingForecast, ScalingPoint

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
    """Returns the forecast for each number of GPUs.

    Args:
        basis: Figures of one replica.
        inside: The links between the GPUs of a node.
        between: One link from a node to other nodes.
        gpus: Numbers of GPUs to forecast.
        gpus_per_node: GPUs per node.
        links_per_node: Links from each node to other nodes.
        run: Name of the run; None without a record.
    """
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
