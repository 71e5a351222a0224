"""Whether settings slow a run that are made for debugging, or that turn fast code off."""

from __future__ import annotations

from keras_gpukit.records.finding import Saving, Severity
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.steps import TimeBreakdown
from keras_gpukit.rules.compute.launches import eager_s
from keras_gpukit.rules.rule import Outcome, percent, seconds
from keras_gpukit.rules.savings import of_run, severity
from keras_gpukit.rules.setup.settings import Slows, in_effect, undone, written
from keras_gpukit.rules.whole_run.time_parts import LOOP_S, NOTABLE_FRACTION, REQUIRES, TimeRule

IDLE_CORES = 0.7
NOT_MEASURED = "compare a short run without it: this run does not show what it costs"
_NAMES: dict[Slows, str] = {
    "start": "the first step",
    "steps and tracing": "steps, the first one included",
    "Python code": "Python code",
}


class SlowSettings(TimeRule):
    """Settings in effect that slow a part of the run which takes at least a tenth of its time.

    The tenth is our choice. `rules/setup/settings.py` lists the settings, and what each slows. The
    title names the first one in that list; the advice is on all of them. `InputBound` names
    those that slow the input, unless the wait for input is unknown, as in tf.data's debug mode.

    What it costs to start operations from Python is measured if there is a profile of the steps;
    see `eager_s`. What slows the first step costs at most its time, and computing on one core at
    most what all cores would save. For other settings a run shows no figure, so there is no saving.
    """

    code = "slow-settings"
    subject = "settings"
    title = "A setting slows the run"
    requires = REQUIRES

    def judge_parts(self, summary: RunSummary, parts: TimeBreakdown) -> Outcome:
        """Compares the parts that settings slow with a tenth of the time."""
        slowed_s, least_s = _slowed_s(summary, parts), NOTABLE_FRACTION * parts.wall_s
        found = {
            key: setting
            for key, setting in in_effect(summary.environment).items()
            if slowed_s.get(setting.slows, 0.0) >= least_s
        }
        if not found:
            return None
        key, setting = next(iter(found.items()))
        spent_s = slowed_s[setting.slows]
        saving = _saving(summary, setting.slows, spent_s)
        measured = saving is not None and saving.low_s > 0
        took = (
            f": {seconds(saving.low_s)} of {seconds(saving.of_s)} s" if saving and measured else ""
        )
        level: Severity = severity(saving, summary) if measured else "warning"
        return self.find(
            "info" if setting.is_choice else level,
            percent("of_the_time_in", spent_s / parts.wall_s, _NAMES.get(setting.slows, "steps")),
            advice=undone(found) if saving else (*undone(found), NOT_MEASURED),
            saving=saving,
            title=f"{written(summary.environment, key)} {setting.does}{took}",
        )


def _slowed_s(summary: RunSummary, parts: TimeBreakdown) -> dict[Slows, float]:
    """Returns the seconds of each part of a run that settings slow."""
    environment, contention = summary.environment, summary.contention
    steps_s = parts.compute_s or 0.0
    on_cpu_s = 0.0 if environment.gpus else steps_s
    eagerly_s = steps_s if environment.runs_eagerly else 0.0
    busy = contention.cores_busy_fraction if contention else None
    stages = summary.pipeline.stages if summary.pipeline else ()
    makes_batches_s = parts.input_s if any(each.work == "python" for each in stages) else None
    callbacks_s = max(parts.callbacks_s - LOOP_S * (summary.steps or 0), 0.0)
    return {
        "steps": steps_s,
        "steps and tracing": steps_s + parts.first_step_s + parts.tracing_s,
        "GPU steps": steps_s - on_cpu_s,
        "CPU steps": on_cpu_s,
        "CPU steps on one core": on_cpu_s if busy is not None and busy < IDLE_CORES else 0.0,
        "eager steps": eagerly_s,
        "input": parts.unknown_s if parts.input_s is None else 0.0,
        "Python code": eagerly_s + callbacks_s + (makes_batches_s or 0.0),
        "start": parts.first_step_s + parts.tracing_s,
    }


def _saving(summary: RunSummary, slows: Slows, spent_s: float) -> Saving | None:
    if slows == "steps" and summary.environment.runs_eagerly:
        lost_s = eager_s(summary)
        return lost_s and of_run(summary, *lost_s, basis="Python in eager steps")
    if slows == "CPU steps on one core":
        spent_s *= 1 - 1 / (summary.environment.cpu_count or 1)
    elif slows != "start":
        return None
    return of_run(summary, 0.0, spent_s, basis=_NAMES.get(slows, "idle cores"), upper_bound=True)
