"""Whether the host's cores limit training."""

from __future__ import annotations

from keras_gpukit.records.finding import Figure, Finding, Saving, Severity
from keras_gpukit.records.machine import HostUtilization
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.input.contention import CORES_BUSY_FRACTION
from keras_gpukit.rules.input.input_bound import is_input_bound
from keras_gpukit.rules.rule import Outcome, Rule, figure, host_readings, readings_too_few
from keras_gpukit.rules.savings import OTHERS_PERCENT, of_run, validation_wait_s

# Least use of all cores from which processes of the job count; our choice.
JOB_PERCENT = OTHERS_PERCENT
# A process is named if it uses at least this share of what all other processes use; our choice.
NAMED_FRACTION = 0.10
LESS_WORK = (
    "Do less work per example: smaller images, or prepare them once, before training",
    "Augment with layers inside the model, which run on the GPU",
)


class HostCPUSaturated(Rule):
    """Host cores that are mostly busy with this run, its job or other processes."""

    code = "host-cpu-saturated"
    subject = "host cores"
    title = "The host's cores are mostly busy"
    requires = "readings of the host's cores"

    def judge(self, summary: RunSummary) -> Outcome:
        host = host_readings(summary)
        if host is None or host.cpu_percent is None:
            return self.abstain(readings_too_few(summary))
        if host.cpu_percent < 100 * CORES_BUSY_FRACTION:
            return None
        waits, on_gpu = is_input_bound(summary), bool(summary.environment.gpus)
        others = _others_percent(summary, host)
        if others is not None and others >= OTHERS_PERCENT:
            saving = None if on_gpu else _saving(summary, host)
            if saving is not None and saving.is_negligible:
                if not waits:
                    return None
                saving = None
            return self._others(host, others, saving, "warning" if waits or not on_gpu else "info")
        level: Severity = "warning" if waits else "info"
        if (host.job_cpu_percent or 0.0) >= JOB_PERCENT:
            fewer = (
                "Start fewer workers on this host, or give each cores of its own: `keras-gpukit "
                "launch --cpus-per-worker N`"
            )
            title = "The job's workers share the cores of this host"
            return self.find(level, *_evidence(host), advice=(fewer, LESS_WORK[0]), title=title)
        if not waits and not on_gpu:
            return self.abstain("this run trains on the CPU, which keeps the cores busy itself")
        less_work = LESS_WORK if on_gpu else LESS_WORK[:1]
        return self.find(level, *_evidence(host), advice=(*less_work, "Give the run more cores"))

    def _others(
        self, host: HostUtilization, others: float, saving: Saving | None, level: Severity
    ) -> Finding:
        large = [use for use in host.others if use.cpu_percent >= NAMED_FRACTION * others]
        names = [f"{use.name} (pid {use.pid})" for use in large]
        named = f": {', '.join(names)}" if names else ""
        unseen = others - sum(use.cpu_percent for use in host.others)
        is_mostly_unseen = bool(names) and unseen >= others / 2
        if is_mostly_unseen:
            named += f"; processes that cannot be seen from here use {unseen:.0f} %"
        return self.find(
            level,
            *_evidence(host),
            figure("other_processes", others, "%"),
            *(
                figure("CPU_use_of", use.cpu_percent, "%", name)
                for name, use in zip(names, large, strict=True)
            ),
            *(
                [figure("use_by_processes_not_visible_here", unseen, "%")]
                if is_mostly_unseen
                else []
            ),
            advice=(
                "Stop other processes that use the cores, or give the run its own cores",
                LESS_WORK[0],
            ),
            saving=saving,
            title=f"Other processes keep the cores busy{named}",
        )


def _others_percent(summary: RunSummary, host: HostUtilization) -> float | None:
    """Returns the percentage of all cores used by processes outside this one and its job."""
    worker = summary.environment.worker
    if host.job_cpu_percent is None and worker is not None and worker.count != 1:
        return None  # as while a run goes on: other workers of the job may use the cores
    return host.others_cpu_percent


def _saving(summary: RunSummary, host: HostUtilization) -> Saving | None:
    """Returns the most that the run would save if its job had all cores of this host.

    TensorFlow traces on one thread, which more cores do not make faster.
    """
    parts = summary.breakdown
    if parts is None or parts.compute_s is None or host.process_cpu_percent is None:
        return None
    validating_s = max(parts.validation_s - validation_wait_s(summary), 0.0)
    tracing_s = parts.first_step_s + parts.tracing_s
    computing_s = parts.compute_s + tracing_s + validating_s
    of_job = (host.process_cpu_percent + (host.job_cpu_percent or 0.0)) / 100
    of_one_core = min(of_job * (summary.environment.cpu_count or 1), 1.0)
    alone_s = of_job * (parts.wall_s - tracing_s) + of_one_core * tracing_s
    return of_run(summary, 0.0, computing_s - alone_s, basis="cores used by others")


def _evidence(host: HostUtilization) -> tuple[Figure, ...]:
    figures = [figure("cores_busy", host.cpu_percent or 0.0, "%")]
    if host.process_cpu_percent is not None:
        figures.append(figure("this_process", host.process_cpu_percent, "%"))
    if (host.job_cpu_percent or 0.0) >= 1:
        figures.append(figure("other_processes_of_the_job", host.job_cpu_percent or 0.0, "%"))
    return tuple(figures)
