"""`Throughput`: step time and examples per second."""

from __future__ import annotations

from keras_gpukit.callbacks.step_watching import StepWatchingCallback
from keras_gpukit.records.names import EXAMPLE_RATE, STEP_TIME
from keras_gpukit.records.steps import Phase, StepWindow, ThroughputRecord
from keras_gpukit.watching.session import Session


class Throughput(StepWatchingCallback[ThroughputRecord]):
    """Measures step time and examples per second.

    Writes `step/time_ms` and `step/examples_per_s`.

    Args:
        log_dir: Everything measured is written to `<log_dir>/gpukit`; None writes nothing.

    Attributes:
        summary: After the run, a `ThroughputRecord`.
        validation: After a `fit` with validation data, that of the validation.

    Raises:
        TypeError: If `log_dir` is no path.
        ValueError: If `log_dir` is empty or a file.
    """

    def tags(self, window: StepWindow) -> dict[str, float | None]:
        """Step time and rate."""
        rate = None if window.examples is None else window.examples / window.duration_s
        return {
            STEP_TIME: window.duration_s / window.steps * 1e3,
            EXAMPLE_RATE: rate,
        }

    def sum_up(self, session: Session, phase: Phase) -> ThroughputRecord:
        """Step times and rates of a phase."""
        return session.throughput(phase)
