"""`keras-gpukit launch` as a process, and what it leaves behind."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent
from typing import ClassVar

import psutil

from helpers.processes import environment, wait_for

MARK = "GPUKIT_TEST_LAUNCH"


class Launch:
    """A launcher whose processes can be found by a mark in their environment.

    It runs a script of this source in the folder; `HEAD` says what the source may use.
    """

    started: ClassVar[list[Launch]] = []
    """Of the test that runs."""

    def __init__(self, folder: Path, source: str, *options: str, arguments: tuple = ()) -> None:
        (folder / "script.py").write_text(HEAD + dedent(source))
        self.mark = uuid.uuid4().hex
        self.folder = folder
        self.command = (
            *(sys.executable, "-m", "keras_gpukit", "launch"),
            *(*options, "script.py", *arguments),
        )
        variables = environment(**{MARK: self.mark, "NO_COLOR": "1"})
        self.environment = {
            name: value
            for name, value in variables.items()
            if name not in ("CUDA_VISIBLE_DEVICES", "TF_CONFIG")
        }
        self.process: subprocess.Popen[str] | None = None
        self.started.append(self)

    def start(self) -> subprocess.Popen[str]:
        """Starts it; its output can be read from pipes."""
        self.process = subprocess.Popen(
            self.command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        return self.process

    def run(self, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
        """Runs it to its end, after which none of its processes may be left."""
        process = self.start()
        output, errors = process.communicate(timeout=timeout_s)
        assert self.left() == []
        return subprocess.CompletedProcess(self.command, process.returncode, output, errors)

    def left(self) -> list[str]:
        """The processes that are still there, wherever in the system."""
        return [command for _, command in left_of([self])]

    def workers(self, *, ready: int) -> dict[int, psutil.Process]:
        """Waits until workers have written the file "ready-<index>"; returns them by index."""
        wait_for(lambda: len(list(self.folder.glob("ready-*"))) >= ready)
        return {
            int(path.name.partition("-")[2]): psutil.Process(int(path.read_text()))
            for path in self.folder.glob("ready-*")
        }


# Before each script. `ready` has the test know that this worker runs.
HEAD = """\
import json, os, signal, socket, subprocess, sys, time
from pathlib import Path

config = json.loads(os.environ["TF_CONFIG"])
index = config["task"]["index"]

def ready():
    Path(f"new-{index}").write_text(str(os.getpid()))
    Path(f"new-{index}").rename(f"ready-{index}")

def listen(address):
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    server.bind(("", int(address.rpartition(":")[2])))
    server.listen()
    return server

"""


def end_all(launches: Sequence[Launch]) -> None:
    """Kills what a test that failed has left."""
    while left := left_of(launches):
        for process, _ in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def left_of(launches: Sequence[Launch]) -> list[tuple[psutil.Process, str]]:
    """The processes of some launches that are still there, with their command lines."""
    marks = {launch.mark for launch in launches}
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) in marks:  # a zombie has none
                found.append((process, f"{process.pid} {' '.join(process.cmdline())}"))
        except (psutil.AccessDenied, psutil.NoSuchProcess):
            continue
    return found
