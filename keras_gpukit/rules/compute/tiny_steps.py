"""Whether steps are so short that starting them costs as much as running them."""

from __future__ import annotations

from keras_gpukit.records.finding import Saving
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.compute.launches import launches_of
from keras_gpukit.rules.rule import Outcome, Rule, figure, too_short
from keras_gpukit.rules.savings import WARNING_FRACTION, of_run
from keras_gpukit.rules.whole_run.time_parts import LESS_TIME, LOOP_S, MINIMUM_WALL_S

TINY_STEP_S = 0.002
MANY_STEPS = 100
STEPS_A_START = 16


class TinySteps(Rule):
    """Steps under 2 ms, each started from Python.

    With Keras 3.15 and TensorFlow 2.21 on two idle cores, a model that computes next to nothing was
    measured to take 0.94 ms per step, and 0.17 ms with 32 steps per execution. Starting a step
    therefore costs most of a millisecond, a large part of 2 ms. With sixteen steps per execution, a
    run saves at least most of the time that Keras' own loop takes between steps, and at most the
    same share of all time between steps and of the steps' own time. Time in which callbacks were
    seen is not spent on starting steps. The minimum of a hundred steps is our choice: with fewer,
    there is little to save.

    An execution of sixteen steps takes longer to trace, which reduces the lower end of the saving.
    On the same host, the first step of a small model took 0.28 to 0.29 s, and 0.34 to 0.36 s with
    sixteen steps per execution. With seven layers it took 0.71 to 0.81 s, and 0.84 to 0.88 s. We
    assume that it takes up to twice as long.
    """

    code = "tiny-steps"
    subject = "tiny steps"
    title = "Many tiny steps: starting them is a large part of each"
    requires = (
        f"the time of at least {MANY_STEPS} steps, and how many make one execution, in a run of at "
        f"least {MINIMUM_WALL_S:g} s"
    )

    def judge(self, summary: RunSummary) -> Outcome:
        """Compares the step time with the threshold."""
        steps_per_execution = summary.environment.steps_per_execution
        throughput = summary.throughput
        if throughput is None or throughput.step_time_s is None or steps_per_execution is None:
            return self.abstain()
        if throughput.measured_steps < MANY_STEPS:
            return too_short(
                f"{throughput.measured_steps} of the {MANY_STEPS} steps needed were measured"
            )
        parts = summary.breakdown
        if parts is not None and parts.wall_s < MINIMUM_WALL_S:
            return self.abstain(LESS_TIME)
        if steps_per_execution > 1 or throughput.step_time_s >= TINY_STEP_S:
            return None
        if summary.environment.runs_eagerly:
            return self.abstain("Python starts each operation, however many steps it starts")
        launches = launches_of(summary)
        if launches is not None and launches.limit:
            return self.abstain("the GPU waits for launches within the steps")
        saving = _saving(summary)
        # If validation or input takes most of the run, there is little to gain here.
        small = saving is not None and (saving.highest_fraction or 0.0) < WARNING_FRACTION
        return self.find(
            "info" if small else "warning",
            figure("step_time", 1000 * throughput.step_time_s, "ms"),
            figure("steps_measured", throughput.measured_steps),
            advice=(
                f"`compile(steps_per_execution={STEPS_A_START})`: sixteen steps for one start. "
                "Callbacks are then called once per sixteen steps: those that log each batch log "
                "fewer",
            ),
            saving=saving,
        )


def _saving(summary: RunSummary) -> Saving | None:
    parts = summary.breakdown
    if parts is None or parts.compute_s is None:
        return None
    saved = 1 - 1 / STEPS_A_START
    seen_s = sum(parts.by_callback.values())
    between_s = max(parts.callbacks_s - seen_s, 0.0)
    loop_s = min(between_s, LOOP_S * (summary.steps or 0))
    return of_run(
        summary,
        saved * loop_s - parts.first_step_s,
        saved * (between_s + parts.compute_s),
        basis="time between steps",
        # Callbacks that were seen are called less often too, which may save more.
        upper_bound=not seen_s,
    )
