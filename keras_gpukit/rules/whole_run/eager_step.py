"""Whether the training step of a script's own loop runs eagerly."""

from __future__ import annotations

from keras_gpukit.records.finding import Saving
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.rule import NO_SCRIPT, Outcome, Rule, figure, percent
from keras_gpukit.rules.savings import CRITICAL_FRACTION, WARNING_FRACTION

LEAST_S = 1.0
"""Shortest time in eager operations that is worth a finding; our choice."""


class StepRunsEagerly(Rule):
    """The step of a loop without `fit` runs its operations one by one, from Python."""

    code = "eager-step"
    subject = "eager steps"
    title = "The training step runs eagerly"
    requires = "the stacks of a whole script, as `keras-gpukit run` samples them"
    judges_first_step = True

    def judge(self, summary: RunSummary) -> Outcome:
        script = summary.script
        if script is None:
            return self.abstain(NO_SCRIPT)
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
            figure("steps", step.steps),
            figure("step_time", 1e3 * step.lasted_s / step.steps, "ms"),
            percent("of_each_step_eager", share),
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
