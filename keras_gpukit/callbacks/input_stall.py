"""`InputStall`: how long training waits for its next batch."""

from __future__ import annotations

from dataclasses import replace

from keras_gpukit.callbacks.session import Session
from keras_gpukit.callbacks.step_watching import StepWatchingCallback
from keras_gpukit.input_wait.clock import StepClock
from keras_gpukit.input_wait.totals import StepTotals
from keras_gpukit.records.steps import InputRecord, StepWindow, TimeBreakdown


class InputStall(StepWatchingCallback[InputRecord]):
    """Measures how long steps are blocked on their next batch.

    Keras fetches batches inside its train function, where callbacks cannot see the wait, so it is
    read from tf.data itself. Writes `input/wait_ms`, `input/stall_percent` and
    `input/buffered_batches`.

    Args:
        log_dir: Everything measured is written to `<log_dir>/gpukit`; None writes nothing.

    Attributes:
        summary: After the run, an `InputRecord`.
        validation: After a `fit` with validation data, that of the validation.

    Raises:
        TypeError: If `log_dir` is no path.
        ValueError: If `log_dir` is empty or a file.
    """

    def tags(self, window: StepWindow) -> dict[str, float | None]:
        """Wait, stall and buffer fill, where they are known."""
        if window.input_wait_s is None:
            return {}
        return {
            "input/wait_ms": window.input_wait_s / window.steps * 1e3,
            "input/stall_percent": window.input_wait_s / window.duration_s * 1e2,
            "input/buffered_batches": window.buffered_batches,
        }

    def sum_up(self, session: Session, totals: StepTotals) -> InputRecord:
        """The input wait of a phase."""
        clock = session.step_functions.clocks[totals.phase]
        record = totals.input(
            clock.meter.mechanism if clock.meter else None,
            clock.meter.confidence if clock.meter else None,
            clock.unknown_because,
        )
        is_broken_down = totals.phase == session.phase and totals.phase != "predict"
        return replace(
            record,
            spread=clock.spread.record(),
            pipeline_start=clock.starts.record(),
            breakdown=_breakdown(session, clock, record.wait_s) if is_broken_down else None,
        )


def _breakdown(session: Session, clock: StepClock, wait_s: float | None) -> TimeBreakdown:
    """The call's wall time by what it went to, from the mean wait of a step."""
    # The first step of the run, and those whose wait is known to be their epoch's start.
    executions_apart = 1 + clock.starts.epochs
    steps = max(clock.steps - executions_apart * session.model.steps_per_execution, 0)
    return session.wall.breakdown(None if wait_s is None else wait_s * steps)
