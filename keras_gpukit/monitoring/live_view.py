"""Shows a running call in the notebook cell that runs it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from keras_gpukit.errors import Guard
from keras_gpukit.monitoring.run_output import RunOutput
from keras_gpukit.monitoring.sampling import Schedule
from keras_gpukit.records.environment import Environment
from keras_gpukit.records.finding import Verdict
from keras_gpukit.records.run import RunSummary
from keras_gpukit.reports.run_words import running
from keras_gpukit.reports.terminal import LiveDisplay
from keras_gpukit.rules import judge_run
from keras_gpukit.saved_runs.folding import RunFold

FIRST_VERDICT_S = 5.0
"""Run time at which the first verdict is made. Later ones become rare."""


class LiveView:
    """Shows what the call is doing, its step time, its input stall and the verdict so far.

    It is updated on the sampling thread. After a failure it stays as it is, and nothing is logged.
    """

    def __init__(self, output: RunOutput, now: Callable[[], float] = time.perf_counter) -> None:
        self._output = output
        self._now = now
        self._schedule = Schedule(now(), FIRST_VERDICT_S)
        self._verdict = Verdict()
        self._display: LiveDisplay | None = None
        self._guard = Guard("The live view", "It is left out.")
        self._guard.logs = False
        with self._guard:
            self._display = LiveDisplay("keras-gpukit: starting")

    def update(self) -> None:
        """Shows the run so far; called on the sampling thread."""
        if self._display is None or self._guard.failed_because is not None:
            return
        with self._guard:
            if self._schedule.is_due(self._now()):
                self._verdict = judge_run(self._output.read_fold(RunFold.summary)).verdict
            self._display.show(self._output.read_fold(self._text))

    def close(self) -> None:
        """Removes it from the cell's output: the verdict on the whole run follows."""
        if self._display is not None:
            with self._guard:
                self._display.show("")

    def _text(self, fold: RunFold) -> str:
        # A whole summary takes milliseconds. The parts of the wall time are updated less often.
        waits = fold.input()
        figures = RunSummary(
            fold.latest.get("environment") or Environment({}),
            throughput=fold.throughput(),
            input=waits and replace(waits, breakdown=None),
            verdict=self._verdict,
        )
        return running(figures, fold.progress())
