"""Where the tests are, and what a process needs to import their helpers."""

from __future__ import annotations

import os
from pathlib import Path

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent


def environment(**changes: str) -> dict[str, str]:
    """This process's environment, with the tests' folder first on `PYTHONPATH`.

    Args:
        changes: Variables to set in addition.
    """
    path = os.pathsep.join(filter(None, (str(TESTS), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path, **changes}
