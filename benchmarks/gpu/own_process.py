"""Runs a function in a new process, since TensorFlow settles its devices once per process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


class CaseFailedError(RuntimeError):
    """A function failed in its own process; the message is the end of what it wrote."""


def call_in_own_process(
    function: Callable[..., Any],
    *arguments: Any,
    environment: Mapping[str, str] | None = None,
    limit_s: float = 120.0,
) -> Any:
    """Calls a function of a module in a new process.

    The process stays in the caller's process group: whatever kills a whole part kills it too.

    Args:
        function: A function at the top of a module of `benchmarks.gpu`.
        *arguments: Its arguments; JSON must be able to express them, and the result.
        environment: Environment variables to add.
        limit_s: Seconds after which the process is killed.

    Raises:
        CaseFailedError: If it failed, crashed or was killed.
    """
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "result.json")
        command = [sys.executable, "-m", "benchmarks.gpu.own_process", str(result)]
        command += [function.__module__, function.__qualname__, json.dumps(arguments)]
        # A file: a process that outlives this one would keep a pipe open.
        log = Path(folder, "log.txt")
        try:
            with log.open("w") as stream:
                done = subprocess.run(
                    command,
                    cwd=ROOT,
                    env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2"} | dict(environment or {}),
                    stdout=stream,
                    stderr=stream,
                    timeout=limit_s,
                )
        except subprocess.TimeoutExpired as error:
            raise CaseFailedError(f"killed after {limit_s:.0f} s") from error
        if not result.exists():
            written = log.read_text(errors="replace")
            raise CaseFailedError(f"exit code {done.returncode}\n{written[-3000:]}".strip())
        return json.loads(result.read_text())


def try_in_own_process(function: Callable[..., Any], *arguments: Any, **how: Any) -> Any:
    """Calls a function as `call_in_own_process` does; if it failed, returns its "error"."""
    try:
        return call_in_own_process(function, *arguments, **how)
    except CaseFailedError as error:
        return {"error": str(error)}


def main() -> None:
    """Calls the function, and ends at once: nothing that it left running matters."""
    result, module, name, arguments = sys.argv[1:]
    value = getattr(import_module(module), name)(*json.loads(arguments))
    Path(result).write_text(json.dumps(value))
    os._exit(0)


if __name__ == "__main__":
    main()
