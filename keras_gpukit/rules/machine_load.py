"""Says how busy other processes kept the machine, as context of a verdict: never a cause itself."""

from __future__ import annotations

from keras_gpukit.records.machine import HostUtilization
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.input.contention import CORES_BUSY_FRACTION, mostly_waits
from keras_gpukit.rules.rule import host_readings
from keras_gpukit.rules.savings import OTHERS_PERCENT, validation_wait_s

# A process is named if it used at least this share of what all other processes used; our choice.
NAMED_FRACTION = 0.10
# Factor of the time alone from which a load is worth a line; our choice.
LEAST_FACTOR = 1.1


def others_percent(summary: RunSummary, host: HostUtilization) -> float | None:
    """Returns the percentage of all cores used by processes outside this one and its job."""
    worker = summary.environment.worker
    if host.job_cpu_percent is None and worker is not None and worker.count != 1:
        return None  # as while a run goes on: other workers of the job may use the cores
    return host.others_cpu_percent


def machine_load(summary: RunSummary) -> str | None:
    """Returns a sentence on the load by other processes; None if it was low or made no difference.

    The load is not the script's own, and it may be gone in the next run. So it is no finding, and
    the saving of each finding is about the script under the load that it had.
    """
    host = host_readings(summary)
    if host is None or host.cpu_percent is None:
        return None
    others = others_percent(summary, host)
    if others is None or others < OTHERS_PERCENT or host.cpu_percent < 100 * CORES_BUSY_FRACTION:
        return None
    factor = None if summary.environment.gpus else _longest(summary, host)
    if factor is not None and factor < LEAST_FACTOR:
        return None
    named = [use for use in host.others if use.cpu_percent >= NAMED_FRACTION * others]
    names = "; ".join(f"{use.name}, pid {use.pid}: {use.cpu_percent:.0f} %" for use in named)
    times = "longer than" if factor is None else f"up to {factor:.2g}× what"
    return (
        f"The machine was busy: other processes used {others:.0f} % of the cores"
        f"{f' ({names})' if names else ''}; times may be {times} they would be alone."
    )


def _longest(summary: RunSummary, host: HostUtilization) -> float | None:
    """Returns the most by which times are longer than with all cores of this host for the job.

    The time that depends on cores is that of computing, and of input that was not seen to wait.
    TensorFlow traces on one thread, which more cores do not make faster.
    """
    parts = summary.breakdown
    if parts is None or parts.compute_s is None or host.process_cpu_percent is None:
        return None
    tracing_s = parts.first_step_s + parts.tracing_s
    waits = summary.input is not None and mostly_waits(summary.input, summary)
    slowed_s = parts.compute_s + tracing_s + (0.0 if waits else parts.input_s or 0.0)
    slowed_s += max(parts.validation_s - validation_wait_s(summary), 0.0)
    of_job = sum(
        (each or 0.0) / 100
        for each in (host.process_cpu_percent, host.children_cpu_percent, host.job_cpu_percent)
    )
    of_one_core = min(of_job * (summary.environment.cpu_count or 1), 1.0)
    alone_s = of_job * (parts.wall_s - tracing_s) + of_one_core * tracing_s
    return slowed_s / alone_s if alone_s > 0 else None
