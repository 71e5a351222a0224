"""Whether the GPU waits for the host to launch its kernels."""

from __future__ import annotations

from keras_gpukit.records.machine import mean_busy_percent
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.compute.launches import Launches, calls_python, launches_of
from keras_gpukit.rules.compute.tiny_steps import STEPS_A_START, TINY_STEP_S
from keras_gpukit.rules.input.input_bound import is_input_bound
from keras_gpukit.rules.memory.memory import ROOM_FRACTION, fullest_fraction
from keras_gpukit.rules.rule import (
    NO_GPU,
    Outcome,
    Rule,
    figure,
    gpu_readings,
    gpu_readings_unknown_because,
    percent,
)
from keras_gpukit.rules.savings import of_compute, of_run, severity, time_of_steps_s

LOW_PERCENT = 50.0
ONE_CORE = (0.5, 1.5)
PYTHON = "the step calls Python functions, which may take the time"


class LaunchBound(Rule):
    """GPUs that wait until the host has launched the next kernel, as with many small operations.

    A profile shows it: TensorFlow runs the step's function, no kernel or copy runs, and no batch is
    fetched. The threshold is 10 % of the steps' time, as for other waits. The saving is from half
    of that wait, which is what a batch twice as large saves if its kernels take twice as long, to
    all of it. The severity follows from the share of the whole run that went to the wait.

    Without a profile the finding only says that it may be so. The GPUs must then be under 50 % busy
    in the steps' own time, steps must not wait for input, and this process must keep about one core
    busy (0.5 to 1.5, without the threads that make batches), since one thread launches a GPU's
    kernels. These are our choices. Steps under 2 ms are left to `tiny-steps`.

    On an H100 both named a model of 500 tiny operations, whose GPU idled 93 % of the time: with a
    profile in `benchmarks/results/gpu`, without one in a run outside of it. Whether the saving
    holds was not measured there.
    """

    code = "launch-bound"
    subject = "kernel launches"
    title = "The GPU waits for the host to launch its kernels"
    requires = (
        "a profile; or readings of the GPUs, the input wait, the parts of the time, and busy cores"
    )

    def judge(self, summary: RunSummary) -> Outcome:
        """Judges by the profile or, without one, by readings of the machine."""
        if not summary.environment.gpus:
            return self.abstain(NO_GPU)
        if summary.environment.runs_eagerly:
            return self.abstain("Python starts each operation, as `slow-settings` says")
        launches = launches_of(summary)
        if launches is None:
            return self._without_profile(summary)
        if not launches.limit:
            return None
        if calls_python(summary.operations):
            return self.abstain(PYTHON)
        return self._captured(summary, launches)

    def _captured(self, summary: RunSummary, launches: Launches) -> Outcome:
        waited_s = launches.fraction * time_of_steps_s(summary)
        lost = of_run(summary, waited_s, waited_s, basis="kernel launches")
        return self.find(
            severity(lost, summary),
            percent("of_a_step_waiting_for_launches", launches.fraction),
            figure("kernels_per_step", launches.kernels),
            figure("mean_time_of_a_kernel", 1e6 * launches.kernel_s, "µs"),
            advice=_advice(summary),
            saving=of_run(
                summary, waited_s / 2, waited_s, basis="kernel launches", upper_bound=True
            ),
        )

    def _without_profile(self, summary: RunSummary) -> Outcome:
        gpus, parts, cores = gpu_readings(summary), summary.breakdown, _cores(summary)
        busy = mean_busy_percent(gpus)
        if busy is None:
            return self.abstain(gpu_readings_unknown_because(summary))
        input_bound = is_input_bound(summary)
        if input_bound:
            return self.abstain("the wait for input explains idle GPUs")
        if input_bound is None or cores is None or parts is None or not parts.compute_s:
            return self.abstain()
        busy_in_steps = busy * parts.wall_s / parts.compute_s
        if busy_in_steps >= LOW_PERCENT or not ONE_CORE[0] <= cores <= ONE_CORE[1]:
            return None
        if (summary.step_time_s or 0.0) < TINY_STEP_S:
            return self.abstain("steps this short are what `tiny-steps` judges")
        if calls_python(summary.operations):
            return self.abstain(PYTHON)
        return self.find(
            "warning",
            figure("GPUs_busy", busy, "%"),
            figure("cores_that_this_process_keeps_busy", cores),
            advice=(
                *_advice(summary),
                "`keras_gpukit.Profiler(log_dir, at_steps=(100,))` shows whether it is so",
            ),
            saving=of_compute(summary, 1 - busy_in_steps / 100, basis="idle GPUs"),
            title="The GPU may be waiting for the host to launch its kernels",
        )


def _cores(summary: RunSummary) -> float | None:
    """Returns how many cores this process keeps busy, without the threads that make batches."""
    contention, cores = summary.contention, summary.environment.cpu_count
    if contention is None or contention.cores_busy_fraction is None or cores is None:
        return None
    return cores * (contention.cores_busy_fraction - (contention.input_cores_fraction or 0.0))


def _advice(summary: RunSummary) -> tuple[str, ...]:
    environment, advice = summary.environment, []
    if not environment.jit_compile:
        advice.append("`compile(jit_compile=True)`: XLA makes few kernels of many operations")
    if (environment.steps_per_execution or 1) == 1:
        advice.append(
            f"`compile(steps_per_execution={STEPS_A_START})`: no return to Python between steps"
        )
    used = fullest_fraction(summary)
    if used is None or used <= ROOM_FRACTION:
        advice.append("A larger batch: the same launches compute more examples")
    return (*advice, "In your own code, use fewer and larger operations")
