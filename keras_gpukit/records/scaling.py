"""Forecast of a run's speed on more GPUs, and the figures that it is based on."""

from __future__ import annotations

from dataclasses import dataclass, field

from keras_gpukit.records.names import SCHEMA


@dataclass(frozen=True)
class Link:
    """A connection over which GPUs exchange gradients.

    Attributes:
        bandwidth_bytes_per_s: Bandwidth in one direction; None if unknown.
    """

    bandwidth_bytes_per_s: float | None = None
    latency_s: float | None = None
    source: str = "unknown"
    latency_source: str = ""


@dataclass(frozen=True)
class ScalingBasis:
    """Figures of one replica, taken from a run's record or given.

    Attributes:
        step_s: Step time without the exchange of gradients; None if unknown.
        batch: Examples per step of one replica; None if unknown.
        on_cpu: Whether the step time is from a run without a GPU.
    """

    step_s: float | None = None
    gradient_bytes: int | None = None
    batch: float | None = None
    exchange_s: float | None = None
    replicas: int = 1
    workers: int = 1
    on_cpu: bool = False
    unknown: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ScalingPoint:
    """Forecast for one number of GPUs. Unknown figures are None.

    Attributes:
        efficiency: Rate per GPU as a share of the rate of one GPU alone, 0 to 1.
    """

    gpus: int
    nodes: int
    exchange_s: float | None = None
    step_s: float | None = None
    efficiency: float | None = None
    examples_per_s: float | None = None
    unknown_because: str = ""


@dataclass(frozen=True)
class ScalingForecast:
    """Forecast of a run on more GPUs, by the ring model of the all-reduce.

    Attributes:
        inside: Link between the GPUs of a node.
        between: Link from a node to other nodes.
        schema: Version of the layout.
    """

    basis: ScalingBasis
    inside: Link
    between: Link
    gpus_per_node: int
    links_per_node: int
    points: tuple[ScalingPoint, ...]
    assumptions: tuple[str, ...]
    run: str | None = None
    schema: int = SCHEMA
