"""Forecast of a run's speed on more GPUs, and the figures that it is based on."""

from __future__ import annotations

from dataclasses import dataclass, field

from keras_gpukit.records.codec import SCHEMA


@dataclass(frozen=True)
class Link:
    """A connection over which GPUs exchange gradients.

    Attributes:
        bandwidth_bytes_per_s: Bandwidth in one direction; None if unknown.
        latency_s: Latency of one message; None if unknown.
        source: Source of the bandwidth, in words.
        latency_source: Source of the latency, in words; "" if it is unknown.
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
        gradient_bytes: Size of the gradients that replicas exchange in a step; None if unknown.
        batch: Examples per step of one replica; None if unknown.
        exchange_s: Time of the exchange per step in the run; None if it was not measured.
        replicas: Number of replicas in the run.
        workers: Number of processes that the replicas were in.
        on_cpu: Whether the step time is from a run without a GPU.
        unknown: Reasons why fields are None, in words, by field name.
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
        gpus: Number of GPUs, each with one replica.
        nodes: Number of machines that the GPUs are in.
        exchange_s: Time of the all-reduce of the gradients per step.
        step_s: Step time.
        efficiency: Rate per GPU as a share of the rate of one GPU alone, 0 to 1.
        examples_per_s: Rate of all GPUs together.
        unknown_because: Why figures are None; "" if none is.
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
        basis: Figures of one replica.
        inside: Link between the GPUs of a node.
        between: Link from a node to other nodes.
        gpus_per_node: Number of GPUs in a node.
        links_per_node: Number of links from a node to other nodes.
        points: Forecasts for the requested numbers of GPUs.
        assumptions: Assumptions of the forecast, in words.
        run: Name of the run; None if the forecast is not based on a record.
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
