"""Whether something other than steps takes up a run's time."""

from __future__ import annotations

from keras_gpukit.records.finding import Figure
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.steps import TimeBreakdown
from keras_gpukit.rules.rule import Outcome, Rule, percent
from keras_gpukit.rules.savings import of_run, severity

MINIMUM_WALL_S = 5.0
NOTABLE_FRACTION = 0.10
LONG_VALIDATION_FRACTION = 0.30
# What Keras' own loop takes between two steps.
LOOP_S = 0.25e-3
MOSTLY = 0.5

_REQUIRES = f"a run of at least {MINIMUM_WALL_S:g} s whose time was broken down"


def long_enough(summary: RunSummary) -> TimeBreakdown | None:
    """The breakdown of a run that is long enough to judge; shorter ones mostly begin and end."""
    parts = summary.breakdown
    return parts if parts is not None and parts.wall_s >= MINIMUM_WALL_S else None


class SlowEpochStart(Rule):
    """The share of the time that goes on waiting for epochs' first batches.

    Keras makes a new iterator each epoch: buffers are filled again, and steps wait meanwhile. A
    tenth is our choice, as for other waits. The first epoch cannot be separated from tracing, so at
    least one more must have been seen.
    """

    code = "slow-epoch-start"
    title = "Each epoch begins with a wait for its first batch"
    requires = f"{_REQUIRES}, and the start of an epoch after the first"

    def judge(self, summary: RunSummary) -> Outcome:
        """Compares the share with the threshold."""
        parts = long_enough(summary)
        start = summary.input.pipeline_start if summary.input else None
        if parts is None or start is None:
            return self.abstain()
        share = start.epochs * start.mean_s / parts.wall_s
        if share < NOTABLE_FRACTION:
            return None
        figures = [
            percent("of the time", share),
            Figure("wait for an epoch's first batch", start.mean_s, "s"),
        ]
        advice: tuple[str, ...] = (
            "ds.repeat() and fit(steps_per_epoch=...): one pipeline for all epochs",
        )
        if start.shuffle_s is not None and start.shuffle_s >= MOSTLY * start.mean_s:
            figures.append(Figure("of it filling the shuffle buffer", start.shuffle_s, "s"))
            advice = (
                "a smaller shuffle buffer, or shuffle file names instead of examples",
                *advice,
            )
        waited_s = start.epochs * start.mean_s
        # The first epoch's own wait is within the first step.
        saving = of_run(
            summary,
            waited_s,
            max(parts.epoch_start_s, waited_s) + start.mean_s,
            basis="epoch starts",
        )
        return self.find(
            "warning" if saving is None else severity(saving, summary),
            *figures,
            advice=advice,
            saving=saving,
        )


class SlowCallbacks(Rule):
    """The share of the time that goes on callbacks, checkpoints among them.

    Keras' own loop is in what is measured between steps: 0.25 ms a step, more than it was measured
    to take, is left out. A tenth of the time is our choice.
    """

    code = "slow-callbacks"
    title = "Callbacks slow training down"
    requires = _REQUIRES

    def judge(self, summary: RunSummary) -> Outcome:
        """Compares the share with the threshold."""
        parts = long_enough(summary)
        if parts is None or summary.steps is None:
            return self.abstain()
        spent_s = parts.callbacks_s - LOOP_S * summary.steps
        share = spent_s / parts.wall_s
        if share < NOTABLE_FRACTION:
            return None
        saving = of_run(summary, spent_s, parts.callbacks_s, basis="callbacks", upper_bound=True)
        return self.find(
            "warning" if saving is None else severity(saving, summary),
            percent("of the time", share),
            Figure("in callbacks", parts.callbacks_s, "s"),
            advice=(
                'keras.callbacks.TensorBoard(update_freq="epoch")',
                "keras.callbacks.ModelCheckpoint: save less often, or only the weights",
                "your own callbacks: work every hundredth batch, not in each",
            ),
            saving=saving,
        )


class LongValidation(Rule):
    """The share of the time that goes on validation within `fit`.

    Three tenths is our choice. A remark up to half of the time: how often to validate is a question
    of its own. What its steps wait for input is saved without validating less.
    """

    code = "long-validation"
    title = "Validation takes a large part of the time"
    requires = _REQUIRES

    def judge(self, summary: RunSummary) -> Outcome:
        """Compares the share with the threshold."""
        parts = long_enough(summary)
        if parts is None:
            return self.abstain()
        share = parts.validation_s / parts.wall_s
        if share < LONG_VALIDATION_FRACTION:
            return None
        return self.find(
            "warning" if share >= MOSTLY else "info",
            percent("of the time", share),
            saving=of_run(
                summary,
                _validation_wait_s(summary),
                parts.validation_s,
                basis="validation",
                upper_bound=True,
            ),
            advice=(
                "fit(validation_freq=...), validation_steps, or a larger validation_batch_size",
            ),
        )


def _validation_wait_s(summary: RunSummary) -> float:
    """How long the steps of all validations waited; 0 where that is unknown."""
    record, throughput = summary.validation_input, summary.validation
    if record is None or record.wait_s is None or throughput is None:
        return 0.0
    return record.wait_s * throughput.steps
