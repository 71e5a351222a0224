"""What a run is expected to reach on more GPUs, and what that rests on."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Link:
    """What GPUs exchange gradients over.

    Attributes:
        bandwidth_bytes_per_s: In one direction; None where it is unknown.
        latency_s: Of one message; None where it is unknown.
        source: Where the bandwidth is from, in words.
        latency_source: Where the latency is from; "" where it is unknown.
    """

    bandwidth_bytes_per_s: float | None = None
    latency_s: float | None = None
    source: str = "unknown"
    latency_source: str = ""


@dataclass(frozen=True)
class ScalingBasis:
    """What one replica does, taken from a run's record or given.

    Attributes:
        step_s: Step time without the exchange of gradients; None where it is unknown.
        gradient_bytes: What replicas exchange in a step; None where it is unknown.
        batch: Examples of one replica in a step; None where it is unknown.
        exchange_s: What the exchange took in the run; None where it was not measured.
        replicas: Replicas of the run.
        workers: Processes that they were in.
        on_cpu: Whether the step time is that of a run without a GPU.
        unknown: Why fields are None, in words, by their names.
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
    """What is expected of one number of GPUs. Unknown figures are None.

    Attributes:
        gpus: How many, each with one replica.
        nodes: Machines that they are in.
        exchange_s: The all-reduce of the gradients in a step.
        step_s: Step time.
        efficiency: Rate per GPU over that of one GPU alone, 0 to 1.
        examples_per_s: Of all GPUs together.
        unknown_because: Why figures are None; "" where none is.
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
    """A run on more GPUs, by the ring model.

    Attributes:
        basis: What one replica does.
        inside: The links between the GPUs of a node.
        between: The links of a node to others.
        gpus_per_node: GPUs in a node.
        links_per_node: Links to other nodes that a node has.
        points: The numbers of GPUs that were asked for.
        assumptions: What it takes for granted, in words.
        run: Name of the run; None without a record.
    """

    basis: ScalingBasis
    inside: Link
    between: Link
    gpus_per_node: int
    links_per_node: int
    points: tuple[ScalingPoint, ...]
    assumptions: tuple[str, ...]
    run: str | None = None
