"""Whether the host's cores limit training: busy, in the kernel, or taken by other processes."""

from __future__ import annotations

from collections.abc import Iterator

from keras_gpukit.records.finding import Figure, Saving, Severity
from keras_gpukit.records.machine import HostUtilization
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.input.contention import CORES_BUSY_FRACTION, mostly_waits
from keras_gpukit.rules.input.input_bound import is_input_bound
from keras_gpukit.rules.rule import Measure, Outcome, Rule, Share, host_readings, readings_too_few
from keras_gpukit.rules.savings import (
    LEAST_WORK,
    OTHERS_PERCENT,
    WARNING_FRACTION,
    of_run,
    severity,
    time_of_steps_s,
    validation_wait_s,
    waited_s,
)

LESS_WORK = (
    "Do less work per example: smaller images, or prepare them once, before training",
    "Augment with layers inside the model, which run on the GPU",
)


class HostCPUSaturated(Rule):
    """Host cores that are mostly busy with this run or its job."""

    code = "host-cpu-saturated"
    title = "The host's cores are mostly busy"
    requires = "readings of the host's cores"
    charts = ("busy", "stages")
    cores_busy = Measure("All cores together are {value} busy", "%")
    this_process = Measure(", this process {value}", "%")
    other_processes_of_the_job = Measure(", other processes of the job {value}", "%")

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
        if (host.job_cpu_percent or 0.0) >= OTHERS_PERCENT:
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


def _evidence(host: HostUtilization) -> Iterator[Figure]:
    yield HostCPUSaturated.cores_busy(host.cpu_percent or 0.0)
    if host.process_cpu_percent is not None:
        yield HostCPUSaturated.this_process(host.process_cpu_percent)
    if host.job_cpu_percent is not None and host.job_cpu_percent >= 1:
        yield HostCPUSaturated.other_processes_of_the_job(host.job_cpu_percent)


POOL = "TF_CPU_ALLOCATOR_USE_BFC=true"
"""Variable with which TensorFlow keeps the memory of freed tensors and uses it again. Higher
thresholds of glibc's malloc do not suffice: threads have heaps of their own, of up to 64 MiB, which
are returned once they are empty, and what is larger is returned at once."""
LONGEST_FAULT_S = 10e-6
"""Kernel time per page fault up to which faults explain the kernel's time; our choice. It was 2 to
4 µs in `benchmarks/results/page_faults.json`, on a virtual machine."""


FAULT_MARGINS = 0.5, 2.0
"""Shares of the kernel's part of the processor time that steps save without page faults, our
choice. Some of the kernel's work is of another kind. But threads wait for each other's page faults,
and memory that was just cleared is in no cache: in `benchmarks/results/page_faults.json` it was
more."""


class PageFaults(Rule):
    """The kernel's share of the processor time, if page faults explain it."""

    code = "page-faults"
    title = "The kernel takes back the memory of freed tensors, and hands it out again"
    requires = "this process's page faults and kernel time in steps"
    charts = ("busy", "timeline")
    tried_by = ("memory-pool",)
    of_the_CPU_time_in_the_kernel = Share("{value} of the CPU time is spent in the kernel")
    page_faults_per_step = Measure("A step has {value} page faults")
    kernel_time_per_fault = Measure(", {value} per fault", "µs")

    def judge(self, summary: RunSummary) -> Outcome:
        host, per_step = host_readings(summary), summary.page_faults_per_step
        if host is None or host.kernel_fraction is None or per_step is None:
            return self.abstain(readings_too_few(summary))
        kernel_cores, faults_per_s = host.kernel_cores or 0.0, host.page_faults_per_s or 0.0
        if host.kernel_fraction < WARNING_FRACTION or kernel_cores > LONGEST_FAULT_S * faults_per_s:
            return None
        if any(allocator.device.startswith("CPU") for allocator in summary.allocators):
            return self.abstain("TensorFlow keeps the memory of freed tensors already")
        stages = summary.pipeline.stages if summary.pipeline else ()
        has_source = summary.input is not None and summary.input.python is not None
        if has_source or any(stage.work == "python" for stage in stages):
            return self.abstain("memory of batches that Python makes is not TensorFlow's to keep")
        waits = is_input_bound(summary)
        if summary.environment.gpus and not waits:
            return self.abstain("needs the input wait") if waits is None else None
        saving = page_faults_saving(summary, host.kernel_fraction)
        return self.find(
            severity(saving, summary),
            self.of_the_CPU_time_in_the_kernel(host.kernel_fraction),
            self.page_faults_per_step(per_step),
            self.kernel_time_per_fault(1e6 * kernel_cores / faults_per_s),
            advice=(
                f"`export {POOL}` before Python starts: TensorFlow then keeps the memory of freed "
                "tensors, and uses it again",
            ),
            saving=saving,
            title=(
                f"The kernel takes {100 * host.kernel_fraction:.0f} % of this process's CPU time: "
                f"{per_step:,.0f} page faults per step, in memory that was freed before"
            ),
        )


NAMED_FRACTION = 0.10
"""A process is named if it used at least this share of what all other processes used; our
choice."""
LEAST_FACTOR = 1.1
"""Factor of the time alone from which a load is worth a line; our choice."""


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
        (percent or 0.0) / 100
        for percent in (host.process_cpu_percent, host.children_cpu_percent, host.job_cpu_percent)
    )
    of_one_core = min(of_job * (summary.environment.cpu_count or 1), 1.0)
    alone_s = of_job * (parts.wall_s - tracing_s) + of_one_core * tracing_s
    return slowed_s / alone_s if alone_s > 0 else None


def page_faults_saving(summary: RunSummary, kernel_fraction: float) -> Saving | None:
    """Returns what a run would save without page faults that take a share of its processor time.

    On a GPU that is at most a part of the wait for input, since other threads launch the steps.
    """
    on_gpu, (less, more) = bool(summary.environment.gpus), FAULT_MARGINS
    slowed_s = (waited_s(summary) or 0.0) if on_gpu else time_of_steps_s(summary)
    low_s = 0.0 if on_gpu else less * kernel_fraction * slowed_s
    high_s = min(more * kernel_fraction, 1 - LEAST_WORK) * slowed_s
    return of_run(summary, low_s, high_s, basis="page faults", upper_bound=on_gpu)
