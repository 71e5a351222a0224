"""Processes of a job that run no script but serve those that do; they run until they are killed.

python -m keras_gpukit.distributed.launching.servers training
python -m keras_gpukit.distributed.launching.servers dispatcher PORT
python -m keras_gpukit.distributed.launching.servers input-worker DISPATCHER_ADDRESS [OWN_HOST PORT]

`serve_input` starts a dispatcher and its workers, a tf.data service, on this machine.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from keras_gpukit.distributed.launching import supervisor
from keras_gpukit.distributed.launching.job import SERVERS, Task
from keras_gpukit.distributed.launching.workers import (
    REUSE,
    ProcessPlan,
    WorkerProcess,
    address_of,
    caught_signals,
    is_listening,
    reserved_ports,
)
from keras_gpukit.distributed.rendezvous import start_server

_GRACE_S = 5.0
_START_WITHIN_S = 120.0
"""Maximum seconds until the dispatcher listens on its port."""
_TURN_S = 0.2


def serve_input(workers: int, port: int) -> int:
    """Runs a dispatcher and its workers until one of them dies or a signal comes.

    No process is left behind: each has a supervisor, which ends it when this process ends. Returns
    the exit code: 128 plus the signal's number, or 1 if a process died or the dispatcher did not
    start.
    """
    if port and is_listening(port):
        raise ValueError(
            f"port {port} is in use. Give another --port, 0 for any. Received: --port={port}"
        )
    with ExitStack() as stack:
        signals = stack.enter_context(caught_signals())
        if not port:
            (port,) = stack.enter_context(reserved_ports(1))
        running: list[WorkerProcess] = []
        stack.callback(_end, running)
        address = address_of(port)
        running.append(_start(Task("dispatcher", 0), ["dispatcher", str(port)]))
        code = _wait(running, signals, until_port=port, until_s=time.monotonic() + _START_WITHIN_S)
        if code is not None:
            return code
        running += [_start(Task("worker", i), ["input-worker", address]) for i in range(workers)]
        print(
            f"Input service with {workers} workers: grpc://{address}\n"
            f'Use it: tune_input(dataset, service="grpc://{address}"). Ctrl-C ends it.',
            flush=True,
        )
        return _wait(running, signals) or 1


def _start(task: Task, arguments: list[str]) -> WorkerProcess:
    command = [sys.executable, "-m", SERVERS, *arguments]
    plan = ProcessPlan(task, tuple(command), REUSE)
    return WorkerProcess(plan, os.environ, 1, 2, grace_s=_GRACE_S)


def _wait(
    running: list[WorkerProcess],
    signals: list[signal.Signals],
    until_port: int | None = None,
    until_s: float = math.inf,
) -> int | None:
    """Returns the exit code after a signal or a death; None once the port is listened on."""
    while True:
        time.sleep(_TURN_S)
        if signals:
            return 128 + signals[0]
        for process in running:
            if process.returncode is not None:
                name = "the dispatcher" if process.task.type == "dispatcher" else process.task.name
                print(f"{name} ended ({process.returncode}); all are stopped.", file=sys.stderr)
                return 1
        if until_port is not None and is_listening(until_port):
            return None
        if time.monotonic() > until_s:
            print("The dispatcher does not start; all are stopped.", file=sys.stderr)
            return 1


def _end(running: list[WorkerProcess]) -> None:
    for process in running:
        process.send(supervisor.STOP)
    while any(process.returncode is None for process in running):
        time.sleep(0.05)


def main(role: str, *arguments: str) -> None:
    """Starts a server of a given role, and waits until it is killed."""
    # Otherwise TensorFlow logs twenty lines for each connection.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    roles: dict[str, Callable[..., None]]
    roles = {"training": _training, "dispatcher": _dispatcher, "input-worker": _input_worker}
    roles[role](*arguments)


def _training() -> None:
    """Runs a parameter server, or a worker that gets work from the coordinator."""
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()  # reads TF_CONFIG
    start_server(resolver).join()


def _dispatcher(port: str) -> None:
    """Runs the dispatcher of a tf.data service, which hands out the work."""
    service = _input_service()
    service.DispatchServer(service.DispatcherConfig(port=int(port))).join()


def _input_worker(dispatcher: str, *own: str) -> None:
    """Runs a worker of a tf.data service, which produces elements."""
    service = _input_service()
    places = {"worker_address": f"{own[0]}:{own[1]}", "port": int(own[1])} if own else {}
    service.WorkerServer(service.WorkerConfig(dispatcher_address=dispatcher, **places)).join()


def _input_service() -> Any:
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")  # input is produced on CPUs
    import tensorflow as tf

    return tf.data.experimental.service


if __name__ == "__main__":
    main(*sys.argv[1:])
