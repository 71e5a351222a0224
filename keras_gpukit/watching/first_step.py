"""Calls actions right before and after the first step of a call."""

from __future__ import annotations

import time
from collections.abc import Callable

from keras_gpukit.errors import Guard
from keras_gpukit.input.wait.clock import OwnCost


class FirstStepHooks:
    """Context manager around the first step of a call. Actions that fail are logged and skipped.

    Attributes:
        before: Actions called before the step.
        after: Actions called after the step, also if it raised.
    """

    def __init__(self, cost: OwnCost) -> None:
        self._cost = cost
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
        """Exits a first step that was interrupted, and forgets all actions."""
        self.__exit__()
        self.before, self.after = [], []

    def _call(self, actions: list[Callable[[], None]]) -> None:
        began = time.perf_counter()
        for action in actions:
            with Guard("Monitoring the first step", "What it would have measured is unknown."):
                action()
        self._cost.add(time.perf_counter() - began, once=True)
