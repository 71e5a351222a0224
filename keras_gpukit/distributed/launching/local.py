"""Runs a job on this machine: starts it, restarts it after failures, and returns an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from keras_gpukit.distributed.launching.attempt import Attempt
from keras_gpukit.distributed.launching.failures import describe, first_failure
from keras_gpukit.distributed.launching.job import RUNNER, Job
from keras_gpukit.distributed.launching.output import Output, Screen
from keras_gpukit.distributed.launching.plan import NONE, plan_processes, usable_cpus
from keras_gpukit.distributed.launching.workers import caught_signals
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
    plans = plan_processes(
        job, os.environ, cpus=usable_cpus(), runner=runner, variables=variables or {}
    )
    out, err = Screen(sys.stdout, os.environ), Screen(sys.stderr, os.environ)
    both = (out, out) if out.is_terminal and err.is_terminal else (out, err)
    output = Output(both, " ".join(job.command), job.log_dir)
    gpus = [(plan.task.name, plan.variables.get(VISIBLE, NONE)) for plan in plans]
    shares = [f"{name}: {share}" for name, share in gpus if share != NONE]
    if shares:
        output.say(f"GPUs of {', of '.join(shares)}.")
    restarts = job.restarts
    with caught_signals() as signals:
        while True:
            attempt = Attempt(plans, output, signals, arrival_s=timeout_s, grace_s=grace_s)
            attempt.run()
            if attempt.ended_by is not None:
                return 128 + attempt.ended_by
            if not attempt.failures:
                return 0
            failure = first_failure(attempt.failures)
            name = failure.task.name
            if output.screens[1].last != name:  # what is seen last is not repeated
                for line in failure.last_words:
                    output.screens[1].write_line(line, name)
            output.say(describe(failure, [e for e in attempt.failures if e is not failure]))
            if not restarts:
                return failure.exit_code
            output.say(f"All are started again; restarts left after this one: {restarts - 1}.")
            restarts -= 1
