"""The progress line that experiments show in a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

Tell = Callable[[str, float], None]
"""Shows what an experiment does now, and how much of the total is done."""


class ProgressLine:
    """A line with what an experiment does now, while its context is active.

    Args:
        name: Name of the experiment.
        total: The total; seconds, if calls do not say how much of it is done.
        shown: Whether to show the line; it needs a terminal or a notebook.
    """

    def __init__(self, name: str, total: float, *, shown: bool) -> None:
        self._began_s = time.perf_counter()
        self._console = Console()
        # Into a file, rich would write an empty line.
        shown = shown and (self._console.is_interactive or self._console.is_jupyter)
        # Refresh between measurements only: a refresh thread would disturb them.
        self._line = Progress(
            console=self._console, auto_refresh=False, transient=True, disable=not shown
        )
        self._task = self._line.add_task(name, total=total)

    def __enter__(self) -> ProgressLine:
        self._line.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._line.stop()

    def __call__(self, what: str, done: float | None = None) -> None:
        """Shows the current activity."""
        done = time.perf_counter() - self._began_s if done is None else done
        self._line.update(self._task, description=escape(what), completed=done, refresh=True)

    def ask(self, question: str) -> bool:
        """Asks the user a question whose answer is yes or no, in place of the line."""
        self._line.stop()
        answer = self._console.input(f"{escape(question)} (y/n) ")
        self._line.start()
        return answer.strip().lower() in {"y", "yes"}
