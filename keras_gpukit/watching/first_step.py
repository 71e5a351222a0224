"""What runs right before and after the first step of a call."""

from __future__ import annotations

import time
from collections.abc import Callable

from keras_gpukit.errors import Guard


class FirstStepHooks:
    """Entered around the first step of a call; what fails in it is logged and skipped.

    Attributes:
        before: Called before the step.
        after: Called after it, also when it raised.
        spent_s: Time they took.
    """

    def __init__(self) -> None:
        self.spent_s = 0.0
        self._entered = False
        self.before: list[Callable[[], None]] = []
        self.after: list[Callable[[], None]] = []

    def __enter__(self) -> None:
        self._entered = True
        self._call(self.before)

    def __exit__(self, *exception: object) -> None:
        if self._entered:
            self._call(self.after)
            self._entered = False

    def close(self) -> None:
        """Leaves a first step in which an interrupt came, and forgets what was to be called."""
        self.__exit__()
        self.before, self.after = [], []

    def _call(self, actions: list[Callable[[], None]]) -> None:
        began = time.perf_counter()
        for action in actions:
            with Guard("Monitoring the first step", "What it would have measured is unknown."):
                action()
        self.spent_s += time.perf_counter() - began
