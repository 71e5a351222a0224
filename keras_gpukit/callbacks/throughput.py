"""`Throughput`: step time and examples per second."""

from __future__ import annotations

from keras_gpukit.callbacks.base import StepWatchingCallback
from keras_gpukit.monitoring.session import Session
from keras_gpukit.records.steps import Phase, ThroughputRecord


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

    def _record(self, session: Session, phase: Phase) -> ThroughputRecord:
        record = session.steps.of(phase).throughput()
        session.output.write_record("throughput", record)
        return record
