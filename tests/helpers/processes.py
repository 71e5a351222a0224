"""Where the tests are, what a process needs to import their helpers, and waiting for processes."""

import os
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent


def environment(**changes: str) -> dict[str, str]:
    """This process's environment, with the tests' folder first on `PYTHONPATH`."""
    path = os.pathsep.join(filter(None, (str(TESTS), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path, **changes}


def free_ports(count: int = 1) -> list[int]:
    """Returns ports at which nothing listens."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def wait_for(condition: Callable[[], Any], timeout_s: float = 240, what: str = "it") -> Any:
    """Waits until a condition holds, and returns what it gave."""
    deadline_s = time.monotonic() + timeout_s
    while not (answer := condition()):
        assert time.monotonic() < deadline_s, f"waited {timeout_s} s for {what}"
        time.sleep(0.02)
    return answer
