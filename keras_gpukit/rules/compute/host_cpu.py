"""Whether the host's cores limit training."""

from __future__ import annotations

from keras_gpukit.records.finding import Figure, Severity
from keras_gpukit.records.machine import HostUtilization
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.input.contention import CORES_BUSY_FRACTION
from keras_gpukit.rules.input.input_bound import is_input_bound
from keras_gpukit.rules.machine_load import others_percent
from keras_gpukit.rules.rule import Outcome, Rule, figure, host_readings, readings_too_few
from keras_gpukit.rules.savings import OTHERS_PERCENT

# Least use of all cores from which processes of the job count; our choice.
JOB_PERCENT = OTHERS_PERCENT
LESS_WORK = (
    "Do less work per example: smaller images, or prepare them once, before training",
    "Augment with layers inside the model, which run on the GPU",
)


class HostCPUSaturated(Rule):
    """Host cores that are mostly busy with this run or its job."""

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
        if (others_percent(summary, host) or 0.0) >= OTHERS_PERCENT:
            return None  # `machine_load` says so: no change of the script makes it less
        waits, on_gpu = is_input_bound(summary), bool(summary.environment.gpus)
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


def _evidence(host: HostUtilization) -> tuple[Figure, ...]:
    figures = [figure("cores_busy", host.cpu_percent or 0.0, "%")]
    if host.process_cpu_percent is not None:
        figures.append(figure("this_process", host.process_cpu_percent, "%"))
    if (host.job_cpu_percent or 0.0) >= 1:
        figures.append(figure("other_processes_of_the_job", host.job_cpu_percent or 0.0, "%"))
    return tuple(figures)
