"""Whether the script profiles far more steps than a profile needs, or its own step runs eagerly."""

from __future__ import annotations

from keras_gpukit.records.finding import Finding, Saving
from keras_gpukit.records.script import ScriptProfile, ScriptRecord
from keras_gpukit.rules.rule import Measure, ScriptRule, Share, seconds
from keras_gpukit.rules.savings import CRITICAL_FRACTION, WARNING_FRACTION

LEAST_STOP_S = 1.0
"""Shortest end of a profile that is worth a finding. Our choice: that of ten steps took 0.1 to 0.3
s, that of 500 steps 1.4 s."""
LONG_S = 10.0
"""From here on a profile is long, even if no call of `fit` is whole within it; our choice."""
SAVED = 0.7
"""Least share of the time that ending the profile takes that is saved. Our choice: a short profile
has to be written as well. More is saved, since steps are faster without it, by how much is not
known."""


class OwnProfile(ScriptRule):
    """The script's own profile covers a whole `fit`, and ending it takes long."""

    code = "own-profile"
    title = "A TensorFlow profiler recorded the whole script"
    requires = "the profiles of a whole script, as `keras-gpukit run` sees them"
    recorded = Measure("The profiler recorded for {value}", "s")
    stop_took = Measure(", and its stop() took {value}", "s")

    def judge_script(self, script: ScriptRecord) -> Finding | None:
        long = [each for each in script.profiles if each.whole_fits or each.recorded_s >= LONG_S]
        if not long:
            return None
        most = max(long, key=lambda each: each.stop_s or 0.0)
        if most.stop_s is None:
            return self.find(
                "warning",
                self.recorded(most.recorded_s),
                advice=_ADVICE,
                title=f"{_recorded(most)}, and was never stopped: its profile is lost",
            )
        share = most.stop_s / max(script.wall_s - script.imports_s, most.stop_s, 1e-9)
        if most.stop_s < LEAST_STOP_S or share < WARNING_FRACTION:
            return None
        return self.find(
            "critical" if share >= CRITICAL_FRACTION else "warning",
            self.recorded(most.recorded_s),
            self.stop_took(most.stop_s),
            advice=_ADVICE,
            saving=Saving(SAVED * most.stop_s, None, script.wall_s, "ending the profile"),
            title=f"{_recorded(most)}; its stop() took {seconds(most.stop_s)} s",
        )


_ADVICE = (
    "profile ten steps: `keras.callbacks.TensorBoard(profile_batch=(20, 30))` alone, or `Profiler`",
    "TensorFlow records one profile at a time: while this one is recorded, that of a callback "
    "fails to start",
)


def _recorded(profile: ScriptProfile) -> str:
    what = {0: f"{seconds(profile.recorded_s)} s", 1: "the whole fit"}.get(
        profile.whole_fits, f"{profile.whole_fits:,} fits"
    )
    return f"A TensorFlow profiler recorded {what} (started at {profile.place})"


LEAST_S = 1.0
"""Shortest time in eager operations that is worth a finding; our choice."""


class StepRunsEagerly(ScriptRule):
    """The step of a loop without `fit` runs its operations one by one, from Python."""

    code = "eager-step"
    title = "The training step runs eagerly"
    requires = "the stacks of a whole script, as `keras-gpukit run` samples them"
    steps = Measure("The loop ran {value} steps")
    step_time = Measure("A step takes {value}", "ms")
    of_each_step_eager = Share(", {value} of it in operations started from Python")

    def judge_script(self, script: ScriptRecord) -> Finding | None:
        step = script.eager_step
        if step is None or step.eager_s < LEAST_S:
            return None
        share = min(step.eager_s / step.lasted_s, 1.0)
        of_script = step.eager_s / max(script.wall_s, step.eager_s)
        if share < WARNING_FRACTION or of_script < WARNING_FRACTION:
            return None
        if step.is_function:
            named = f"{step.function} ({step.place})"
            advice = f"decorate `{step.function}` with `@tf.function`"
        else:
            named = f"The step in the loop at {step.place}"
            advice = "move the step into a function of its own, with `@tf.function`"
        named += " calls `strategy.run`, and" if step.in_replicas else ""
        return self.find(
            "critical" if of_script >= CRITICAL_FRACTION else "warning",
            self.steps(step.steps),
            self.step_time(1e3 * step.lasted_s / step.steps),
            self.of_each_step_eager(share),
            advice=(
                f"{advice}: Python then starts one graph for each step, and not every operation",
                "pass it tensors, and no Python numbers that change: each new one is traced again",
                "what has to stay Python, such as `print` or `float(loss)`, goes after the step",
            ),
            saving=Saving(
                0.0, step.eager_s, script.wall_s, "operations started from Python", upper_bound=True
            ),
            title=f"{named} runs eagerly: {100 * share:.0f} % of each step are operations that "
            "Python starts one by one",
        )
