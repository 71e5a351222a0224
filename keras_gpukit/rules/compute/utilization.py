"""Whether the GPUs idle for a reason other than input."""

from __future__ import annotations

from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.compute.launch_bound import LOW_PERCENT, LaunchBound
from keras_gpukit.rules.compute.launches import launches_of
from keras_gpukit.rules.input.input_bound import is_input_bound
from keras_gpukit.rules.rule import (
    Outcome,
    Rule,
    figure,
    gpu_readings,
    gpu_readings_unknown_because,
)
from keras_gpukit.rules.savings import of_compute


class LowUtilization(Rule):
    """GPUs that ran no kernel for more than half of the time, although input was available.

    The threshold of 50 % is our choice. NVML counts the time in which at least one kernel ran,
    however small. Even a poorly used GPU therefore reads high, and one that reads under half
    certainly idles. If the GPUs wait for input, or may do so, this rule gives no answer:
    `input-bound` reports the wait. Nor does it if `launch-bound` names the cause.
    """

    code = "low-utilization"
    subject = "GPU use"
    title = "GPUs idle although input is there"
    yields_to = (LaunchBound.code,)
    requires = "readings of the GPUs' utilization"

    def judge(self, summary: RunSummary) -> Outcome:
        """Compares the mean over all GPUs with the threshold."""
        readings = [
            figure("busy_time_of", gpu.utilization_percent, "%", f"GPU:{gpu.index}")
            for gpu in gpu_readings(summary)
            if gpu.utilization_percent is not None
        ]
        if not readings:
            return self.abstain(gpu_readings_unknown_because(summary))
        mean = sum(reading.value for reading in readings) / len(readings)
        if mean >= LOW_PERCENT:
            return None
        input_bound = is_input_bound(summary)
        if input_bound:
            return self.abstain("the wait for input explains it")
        if input_bound is None:
            return self.abstain("the GPUs idle, but whether they wait for input is not known")
        if summary.environment.runs_eagerly:
            return self.abstain("Python starts each operation, as `slow-settings` says")
        return self.find(
            "warning",
            *readings,
            advice=_advise(summary),
            saving=of_compute(summary, 1 - mean / 100, basis="idle GPUs"),
        )


def _advise(summary: RunSummary) -> tuple[str, ...]:
    environment = summary.environment
    advice = ["Look in TensorBoard's Profile tab for gaps between kernels"]
    if launches_of(summary) is None:  # a profile would have shown that launches are the cause
        launches = ["A larger batch, as memory allows: larger kernels, fewer launches"]
        if environment.steps_per_execution == 1:
            launches.append("`compile(steps_per_execution=16)`: fewer returns to Python")
        launches.append("`compile(jit_compile=True)`: XLA fuses small kernels")
        advice = launches + advice
    if environment.replicas is not None and environment.replicas < len(environment.gpus):
        advice.insert(0, "`configure_gpus(strategy='mirrored')`: train on every GPU")
    return tuple(advice)
