"""Keeps failures of monitoring away from training."""

from __future__ import annotations

from types import TracebackType

from keras_gpukit.errors import give_up


class Guard:
    """Entered around a part of the monitoring: an exception ends there, and is logged once.

    Only `Exception` is caught: Ctrl-C passes through.

    ```python
    guard = Guard("Reading the host", "It is not read again in this run.")
    with guard:
        sensor.read()
    if guard.failed_because: ...
    ```

    Args:
        part: What may fail, as the warning's subject.
        consequence: What is lost by it, in a sentence.

    Attributes:
        failed_because: The first failure in words; None without one. The exception itself would
            keep the frames it passed through alive, and with them the run's data.
        logs: Whether a failure is logged.
    """

    def __init__(self, part: str, consequence: str) -> None:
        self.failed_because: str | None = None
        self.logs = True
        self._part = part
        self._consequence = consequence

    def __enter__(self) -> Guard:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        if self.failed_because is None:
            self.failed_because = f"{type(error).__name__}: {error}"
            if self.logs:
                give_up(self._part, error, self._consequence)
        return True
