"""Calls a function in a fork, since TensorFlow settles its devices and memory once per process."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any


def in_fork(function: Callable[..., Any], *arguments: Any) -> Any:
    """Returns what a function returns in a fork of this process.

    TensorFlow may be loaded, but its runtime must not have started.

    Args:
        function: Returns what JSON can express.
        *arguments: Its arguments.

    Raises:
        RuntimeError: If it raised or crashed.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "result.json")
        if (child := os.fork()) == 0:
            try:
                answer = {"value": function(*arguments)}
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {str(error)[:500]}"}
            path.write_text(json.dumps(answer))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not path.exists():
            raise RuntimeError(f"exit code {os.waitstatus_to_exitcode(status)}")
        answer = json.loads(path.read_text())
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return answer["value"]
