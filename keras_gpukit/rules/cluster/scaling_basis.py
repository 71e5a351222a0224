"""The figures of one replica, such as its step time, taken from a run's record."""

from __future__ import annotations

from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.scaling import ScalingBasis
from keras_gpukit.rules.cluster.lateness import exchange_s
from keras_gpukit.rules.cluster.unscaled_batch import replica_batch


def basis_of(summary: RunSummary) -> ScalingBasis:
    """Returns the figures of one replica from a run's record; unknown ones are None, with reasons.

    Args:
        summary: The run; if it has several workers, the record of the first one.
    """
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
