"""Shortens the waits for the GIL of our own readings, where Python threads make the batches.

A thread that wants the GIL (global interpreter lock) from a thread that runs Python code gets it
after `sys.getswitchinterval()`, 5 ms by default. A reading calls TensorFlow, which releases the GIL
each time: with four threads of a `PyDataset` on a busy machine, the dozen readings at the start of
an epoch waited for 160 ms, and with a shorter interval for 20 ms.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

PROMPT_S = 1e-4
"""Switch interval during a reading. Our choice: fifty times shorter than Python's default."""
_usual_s = sys.getswitchinterval()


@contextmanager
def prompt_gil() -> Iterator[None]:
    """Lets threads switch promptly until the context is left."""
    global _usual_s
    interval_s = sys.getswitchinterval()
    if interval_s <= PROMPT_S:  # the script's own choice, or a reading on another thread
        yield
        return
    _usual_s = interval_s
    try:
        sys.setswitchinterval(PROMPT_S)
        yield
    finally:
        sys.setswitchinterval(_usual_s)
