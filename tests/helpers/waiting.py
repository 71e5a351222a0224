"""Imports TensorFlow and Keras, and waits for scripts to run in forks: see `prepared.py`.

Arguments: the descriptor of a socket that listens, and the number of the process with which to end.
Each connection brings a message in JSON, with the script's arguments, environment and working
folder, and three descriptors: the script's output, its errors, and where its number and its exit
status are written.
"""

from __future__ import annotations

import array
import atexit
import builtins
import gc
import json
import os
import signal
import socket
import sys
from typing import Any

MOST_BYTES = 1 << 18


def serve(listening: socket.socket, tests: int) -> dict[str, Any]:
    """Forks for each message until the tests have ended; returns one only in the fork for it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the scripts
    signal.signal(
        signal.SIGCHLD, signal.SIG_IGN
    )  # nothing waits for the process that reports their end
    while True:
        try:
            with listening.accept()[0] as asked:
                message, descriptors, _, _ = socket.recv_fds(asked, MOST_BYTES, 3)
        except TimeoutError:
            if not is_alive(tests):
                os._exit(0)
            continue
        if os.fork() == 0:
            listening.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            fork_and_tell(*descriptors)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            return json.loads(message)
        for each in descriptors:
            os.close(each)


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def fork_and_tell(output: int, errors: int, found: int) -> None:
    """Returns in a fork with this output; the process stays to tell of it."""
    if number := os.fork():
        os.close(output)
        os.close(errors)
        os.write(found, array.array("q", [number]))
        _, status = os.waitpid(number, 0)
        os.write(found, array.array("q", [os.waitstatus_to_exitcode(status)]))
        os._exit(0)
    os.dup2(output, 1)
    os.dup2(errors, 2)
    for each in (output, errors, found):
        os.close(each)


def run(arguments: list[str], env: dict[str, str], folder: str) -> None:
    """Runs a script as a new interpreter would."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    numpy.random.seed()  # unlike its siblings
    sys.argv = arguments
    packages = env.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:1] = [os.path.dirname(os.path.abspath(arguments[0])), *packages]
    with open(arguments[0], "rb") as file:
        code = compile(file.read(), arguments[0], "exec", dont_inherit=True)
    scope = {"__name__": "__main__", "__file__": arguments[0], "__builtins__": builtins}
    own, status = globals(), exit_status
    own.clear()
    own.update(scope)
    try:
        exec(code, own)
    except SystemExit as ending:
        if ending.code is not None:
            status[0] = ending.code if isinstance(ending.code, int) else 1
        raise
    except BaseException:
        status[0] = 1
        raise


def end(status: list[int]) -> None:
    """Ends a script after its exit handlers; to free all of TensorFlow takes a second of a core."""
    import ctypes
    import os
    import sys

    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    ctypes.CDLL(None).fflush(None)
    os._exit(status[0])


if __name__ == "__main__":
    exit_status = [0]
    atexit.register(end, exit_status)  # of all handlers the first one, so it is called last
    sys.modules["sklearn"] = None  # else Keras imports it, which takes a second of a core
    import keras  # noqa: F401
    import numpy
    import tensorflow  # noqa: F401

    del sys.modules["sklearn"]
    gc.collect()
    gc.freeze()  # a script's collections need not look at TensorFlow
    listening = socket.socket(fileno=int(sys.argv[1]))
    listening.settimeout(1.0)
    run(**serve(listening, int(sys.argv[2])))
