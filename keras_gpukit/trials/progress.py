"""The progress line that experiments show in a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Tell = Callable[[str, float], None]
"""Shows what an experiment does now, and how much of the total is done."""


@contextmanager
def progress(name: str, total: float, *, shown: bool) -> Iterator[Tell]:
    """Yields a function that updates the progress line."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console()
    # Into a file, rich would write an empty line.
    shown = shown and (console.is_interactive or console.is_jupyter)
    # Refresh between measurements only: a refresh thread would disturb them.
    with Progress(console=console, auto_refresh=False, transient=True, disable=not shown) as line:
        task = line.add_task(name, total=total)

        def tell(what: str, done: float) -> None:
            line.update(task, description=what, completed=done, refresh=True)

        yield tell
