"""Notes on exceptions, as PEP 678 has them, also before Python 3.11."""

from __future__ import annotations

import sys


def add_note(error: BaseException, note: str) -> None:
    """Adds a note to an exception, which is raised on unchanged.

    Python 3.10 has no notes: there the attribute that holds them is set, for tools that read it,
    and the note is printed on standard error, as tracebacks leave it out.
    """
    if sys.version_info >= (3, 11):
        error.add_note(note)
        return
    notes = getattr(error, "__notes__", [])
    error.__notes__ = [*notes, note]  # type: ignore[attr-defined]
    print(note, file=sys.stderr)
