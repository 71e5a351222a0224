"""Runs a job on this machine: starts it, restarts it after failures, and returns an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from keras_gpukit.distributed.launching.attempt import Attempt
from keras_gpukit.distributed.launching.failures import Ending, describe, first_failure, last_words
from keras_gpukit.distributed.launching.job import RUNNER, Job
from keras_gpukit.distributed.launching.plan import Start, plan_starts, usable_cpus
from keras_gpukit.distributed.launching.screen import Screen
from keras_gpukit.distributed.launching.streams import Output
from keras_gpukit.distributed.launching.workers import Signals
from keras_gpukit.rules.setup.visible_devices import VISIBLE


def launch(
    job: Job,
    *,
    timeout_s: float,
    grace_s: float,
    runner: tuple[str, ...] = RUNNER,
    variables: Mapping[str, str] | None = None,
) -> int:
    """Runs a job's processes on this machine until all have ended.

    Args:
        job: The job to run.
        timeout_s: Maximum seconds from the first process joining the cluster to the last one.
        grace_s: Seconds from SIGTERM to SIGKILL when processes are stopped.
        runner: Python arguments before the script, which run it.
        variables: Environment variables for all processes.

    Returns:
        The exit code: 0, the exit code of the process that failed first, or 128 plus the number of
        the signal that ended that process or the launcher.

    Raises:
        ValueError: If the machine has too few GPUs or processors, or if this process is already
            part of a cluster.
        OSError: If a log file cannot be written, or no more processes can be started.
    """
    starts = plan_starts(
        job, os.environ, cpus=usable_cpus(), runner=runner, variables=variables or {}
    )
    output = Output(_screens(), " ".join(job.command), job.log_dir)
    restarts = job.restarts
    _tell_gpus(starts, output)
    with Signals() as signals:
        while True:
            attempt = Attempt(starts, output, signals, arrival_s=timeout_s, grace_s=grace_s)
            attempt.run()
            if attempt.ended_by is not None:
                return 128 + attempt.ended_by
            if not attempt.failures:
                return 0
            failure = first_failure(attempt.failures)
            _tell_failure(failure, attempt.failures, output)
            if not restarts:
                return failure.exit_code
            output.tell(f"All are started again; restarts left after this one: {restarts - 1}.")
            restarts -= 1


def _screens() -> tuple[Screen, Screen]:
    screens = Screen(sys.stdout, os.environ), Screen(sys.stderr, os.environ)
    if all(screen.is_terminal for screen in screens):
        return screens[0], screens[0]
    return screens


def _tell_gpus(starts: tuple[Start, ...], output: Output) -> None:
    shares = [
        f"{start.task.name}: {start.variables[VISIBLE]}"
        for start in starts
        if start.variables.get(VISIBLE, "-1") != "-1"
    ]
    if shares:
        output.tell(f"GPUs of {', of '.join(shares)}.")


def _tell_failure(failure: Ending, failures: list[Ending], output: Output) -> None:
    """Describes the first failure, after its last output unless the screen ends with that."""
    screen, name, words = output.screens[1], failure.task.name, last_words(failure)
    if not screen.ends_with(words, name):
        for line in words:
            screen.write_line(line, name)
    output.tell(describe(failure, [each for each in failures if each is not failure]))
