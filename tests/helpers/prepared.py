"""Processes of their own that need not import TensorFlow and Keras, which takes seconds of a core.

One process has imported them and waits (`waiting.py`); each script runs in a fork of it. Nothing of
TensorFlow's runtime has started: devices, allocators, threads and settings are the fork's own.
There is one for each choice of the variables that TensorFlow reads on import, which all processes
of a test run share. Tests of imports start a new interpreter instead.
"""

import array
import fcntl
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from helpers.processes import environment

WAITING = Path(__file__).with_name("waiting.py")
READ_ON_IMPORT = ("TF_ENABLE_ONEDNN_OPTS", "TF_CPP_MIN_LOG_LEVEL")
"""Variables that TensorFlow reads when it is imported."""
RUN = "GPUKIT_TEST_RUN"
"""A variable with the number of the process that runs the tests, or has others run them."""
COUNTING = {
    "TF_CPU_ALLOCATOR_USE_BFC": "true",
    "TF_ENABLE_ONEDNN_OPTS": "0",
    "TF_CPP_MIN_LOG_LEVEL": "0",
}
"""For an allocator that counts each byte, logs what it holds, and may run out of memory."""


class Prepared:
    """A Python process with TensorFlow and Keras loaded, as `subprocess.Popen` has one.

    `stdout` and `stderr` are descriptors. It runs in this process's folder if none is given.
    """

    def __init__(
        self,
        script: Path,
        *arguments: Any,
        env: Mapping[str, str],
        stdout: int,
        stderr: int,
        folder: Path | None = None,
    ) -> None:
        self.args = [str(script), *map(str, arguments)]
        self.returncode: int | None = None
        self._told, its = socket.socketpair()
        place = str(folder or Path.cwd())
        request = json.dumps({"arguments": self.args, "env": dict(env), "folder": place})
        with its, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asked:
            asked.connect(waiting_for(env))
            socket.send_fds(asked, [request.encode()], [stdout, stderr, its.fileno()])
        self.pid = self._next()

    def _next(self) -> int:
        """The next message on it: its number, then its exit status."""
        found = array.array("q")
        found.frombytes(self._told.recv(found.itemsize))
        return found[0]

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end, and returns the exit status; a negative one is a signal."""
        if self.returncode is None:
            self._told.settimeout(timeout)
            try:
                self.returncode = self._next()
            except (TimeoutError, BlockingIOError) as error:
                raise subprocess.TimeoutExpired(self.args, timeout or 0) from error
            self._told.close()
        return self.returncode

    def poll(self) -> int | None:
        """Its exit status, or None while it runs."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, number: int) -> None:
        """Sends it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)
        self.wait()


def run(
    script: Path,
    *arguments: Any,
    env: Mapping[str, str] | None = None,
    folder: Path | None = None,
    timeout: float = 120,
) -> subprocess.CompletedProcess[str]:
    """Runs a script to its end, in this process's environment and folder if none are given.

    Fails if the script does. If it takes longer than `timeout` seconds, it is ended, and raises
    `subprocess.TimeoutExpired`.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        files = {"stdout": output.fileno(), "stderr": errors.fileno()}
        process = Prepared(script, *arguments, env=env or environment(), folder=folder, **files)
        try:
            process.wait(timeout)
        finally:
            process.kill()
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    assert process.wait() == 0, texts[1][-3000:]
    return subprocess.CompletedProcess(process.args, 0, *texts)


def waiting_for(env: Mapping[str, str]) -> str:
    """The socket of the process that waits for scripts with this environment."""
    chosen = {name: env[name] for name in READ_ON_IMPORT if name in env}
    return _waiting(tuple({"TF_CPP_MIN_LOG_LEVEL": "3", **chosen}.items()))


def sockets() -> Path:
    """The folder with the sockets of this test run."""
    return Path(tempfile.gettempdir()) / f"gpukit-tests-{os.environ[RUN]}"


@functools.cache
def _waiting(variables: tuple[tuple[str, str], ...]) -> str:
    """Starts a process that waits, unless another of this test run has; it ends with the run."""
    run, folder = os.environ[RUN], sockets()
    folder.mkdir(exist_ok=True)
    place = folder / "-".join(value for _, value in variables)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
                listening.bind(str(place))
                listening.listen(64)
                listening.set_inheritable(True)
                command = [sys.executable, str(WAITING), str(listening.fileno()), run]
                no_input = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
                env = environment(**dict(variables))
                os.posix_spawn(sys.executable, command, env, file_actions=no_input)
    return str(place)
