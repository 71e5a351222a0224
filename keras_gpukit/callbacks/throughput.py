"""`Throughput`: step time and examples per second."""

from __future__ import annotations

from keras_gpukit.callbacks.step_watching import StepWatchingCallback
from keras_gpukit.records.names import BETWEEN_STEPS, EXAMPLE_RATE, STEP_TIME
from keras_gpukit.records.steps import Phase, StepWindow, ThroughputRecord
from keras_gpukit.watching.session import Session


class Throughput(StepWatchingCallback[ThroughputRecord]):
    """Measures step time and examples per second.

    Writes `step/time_ms`, `step/examples_per_s` and `step/between_ms`.

    Args:
        log_dir: Everything measured is written to `<log_dir>/gpukit`; None writes nothing.

    Attributes:
        summary: After the run, a `ThroughputRecord`.
        validation: After a `fit` with validation data, the `ThroughputRecord` of the validation.

    Raises:
        TypeError: If `log_dir` is not a path.
        ValueError: If `log_dir` is empty or a file.
    """

    def tags(self, window: StepWindow) -> dict[str, float | None]:
        """Returns step time, examples per second, and the part of the step time between steps."""
        rate = None if window.examples is None else window.examples / window.duration_s
        between_s = window.between_s
        return {
            STEP_TIME: window.duration_s / window.steps * 1e3,
            EXAMPLE_RATE: rate,
            BETWEEN_STEPS: None if between_s is None else between_s / window.steps * 1e3,
        }

    def sum_up(self, session: Session, phase: Phase) -> ThroughputRecord:
        """Returns the step times and rates of a phase."""
        return session.steps_of(phase).throughput()
