"""Names what a call does as NVTX ranges, which Nsight Systems shows on its timeline.

Only the host is marked, around the calls of the step function: what TensorFlow compiled stays as it
is. In `fit` and `evaluate` Keras fetches a batch within its step function, so the wait for it has
no range there; marks say how long it was.
"""

from __future__ import annotations

import functools
from importlib import import_module
from itertools import count
from typing import Any

from keras_gpukit.errors import Guard
from keras_gpukit.input.wait.calls import StepFunction
from keras_gpukit.monitoring.call_steps import CallSteps
from keras_gpukit.records.steps import Phase, StepWindow
from keras_gpukit.version import install_command

DOMAIN = "keras_gpukit"
FETCH, WAIT = "fetch of a batch", "input wait, ms per step"


def load_nvtx() -> Any:
    """Returns the package."""
    try:
        return import_module("nvtx")
    except ImportError as error:
        raise ImportError(
            f"`nvtx=True` needs the package nvtx: {install_command('nvtx')}. Received: nvtx=True"
        ) from error


class NVTXRanges:
    """Ranges of one monitored call, in a domain of their own.

    Phases, epochs and fetches can begin and end on different threads; steps are nested in each
    other on theirs.
    """

    def __init__(self) -> None:
        self._domain = load_nvtx().get_domain(DOMAIN)
        self._open: list[Any] = []
        self._fetch: Any = None

    def begin(self, name: str) -> None:
        """Begins a range within those that are open."""
        self._open.append(self._start(name))

    def end(self) -> None:
        """Ends the innermost range."""
        self.fetch_ends()
        if self._open:
            self._domain.end_range(self._open.pop())

    def end_all(self) -> None:
        """Ends all ranges: an exception may have ended several."""
        while self._open:
            self.end()

    def fetch_begins(self) -> None:
        """Begins the range of a fetch outside of the step function, as in `predict`."""
        self.fetch_ends()
        self._fetch = (self._start(FETCH),)

    def fetch_ends(self) -> None:
        """Ends the range of a fetch; the one at the end of the data finds no batch."""
        fetch, self._fetch = self._fetch, None
        if fetch is not None:
            self._domain.end_range(*fetch)

    def mark_steps(self, steps: CallSteps, phase: Phase) -> None:
        """Gives each execution of a phase a range, and each window of steps a mark of its wait."""
        per_execution = steps.model.steps_per_execution
        name = "step" if per_execution == 1 else f"{per_execution} steps"
        domain, numbers = self._domain, count(1)

        def around(step_function: StepFunction) -> StepFunction:
            @functools.wraps(step_function)
            def marked(batches: Any) -> Any:
                self.fetch_ends()
                domain.push_range(domain.get_event_attributes(name, payload=next(numbers)))
                try:
                    return step_function(batches)
                finally:
                    domain.pop_range()

            return marked

        with Guard("Naming steps for Nsight Systems", "Its timeline shows none of them."):
            steps.on_window(phase, self._mark_wait)
            steps.of(phase).surround(around)

    def _mark_wait(self, window: StepWindow) -> None:
        if window.input_wait_s is not None:
            wait_ms = 1e3 * window.input_wait_s / window.steps
            self._domain.mark(self._domain.get_event_attributes(WAIT, payload=wait_ms))

    def _start(self, name: str) -> Any:
        return self._domain.start_range(self._domain.get_event_attributes(name))
