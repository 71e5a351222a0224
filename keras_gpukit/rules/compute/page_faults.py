"""Whether the kernel takes a run's time because freed memory goes back to it again and again."""

from __future__ import annotations

from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.input.input_bound import is_input_bound
from keras_gpukit.rules.rule import (
    Outcome,
    Rule,
    figure,
    host_readings,
    percent,
    readings_too_few,
)
from keras_gpukit.rules.savings import WARNING_FRACTION, of_page_faults, severity

POOL = "TF_CPU_ALLOCATOR_USE_BFC=true"
"""Variable with which TensorFlow keeps the memory of freed tensors and uses it again. Higher
thresholds of glibc's malloc do not suffice: threads have heaps of their own, of up to 64 MiB, which
are returned once they are empty, and what is larger is returned at once."""
LONGEST_FAULT_S = 10e-6
"""Kernel time per page fault up to which faults explain the kernel's time; our choice. It was 2 to
4 µs in `benchmarks/results/page_faults.json`, on a virtual machine."""


class PageFaults(Rule):
    """The kernel's share of the processor time, if page faults explain it."""

    code = "page-faults"
    subject = "page faults"
    title = "The kernel takes back the memory of freed tensors, and hands it out again"
    requires = "this process's page faults and kernel time in steps"

    def judge(self, summary: RunSummary) -> Outcome:
        """Compares the kernel's share and its time per page fault with the thresholds."""
        host, per_step = host_readings(summary), summary.page_faults_per_step
        if host is None or host.kernel_fraction is None or per_step is None:
            return self.abstain(readings_too_few(summary))
        kernel_cores, faults_per_s = host.kernel_cores or 0.0, host.page_faults_per_s or 0.0
        if host.kernel_fraction < WARNING_FRACTION or kernel_cores > LONGEST_FAULT_S * faults_per_s:
            return None
        if any(each.device.startswith("CPU") for each in summary.allocators):
            return self.abstain("TensorFlow keeps the memory of freed tensors already")
        if _python_makes_batches(summary):
            return self.abstain("memory of batches that Python makes is not TensorFlow's to keep")
        waits = is_input_bound(summary)
        if summary.environment.gpus and not waits:
            return self.abstain("needs the input wait") if waits is None else None
        saving = of_page_faults(summary, host.kernel_fraction)
        return self.find(
            severity(saving, summary),
            percent("of_the_CPU_time_in_the_kernel", host.kernel_fraction),
            figure("page_faults_per_step", per_step),
            figure("kernel_time_per_fault", 1e6 * kernel_cores / faults_per_s, "µs"),
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


def _python_makes_batches(summary: RunSummary) -> bool:
    stages = summary.pipeline.stages if summary.pipeline else ()
    has_source = summary.input is not None and summary.input.python is not None
    return has_source or any(stage.work == "python" for stage in stages)
