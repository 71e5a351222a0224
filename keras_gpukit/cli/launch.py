"""`keras-gpukit launch`: runs a training script as several processes that train together."""

from __future__ import annotations

import argparse
import math
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_gpukit.cli import launch_elsewhere
from keras_gpukit.cli.command_line import add_command, fail, folder
from keras_gpukit.records.names import FOLDER

if TYPE_CHECKING:
    from keras_gpukit.distributed.launching.job import Job

USAGE = "keras-gpukit launch --workers N [OPTION ...] (SCRIPT | -m MODULE) [ARGUMENT ...]"
DESCRIPTION = """\
Starts a training script as several processes, each of which gets its place in the cluster by
TF_CONFIG and its share of the GPUs. Their output is shown with a prefix, and one progress bar, the
chief's. If one fails, all are stopped; its traceback is shown last, and this command ends with its
exit code. On a cluster of Slurm or Kubernetes, the same job is a batch script or a manifest."""


def add_parser(subparsers: Any) -> None:
    """Adds the command to the `keras-gpukit` parser."""
    parser = add_command(
        subparsers,
        "launch",
        run,
        script="a Python file",
        help="start a training script as several processes that train together",
        usage=USAGE,
        description=DESCRIPTION,
    )
    parser.add_argument(
        "--workers", type=int, required=True, metavar="N", help="processes that train"
    )
    parser.add_argument(
        "--ps",
        type=int,
        default=0,
        metavar="N",
        help="parameter servers, for asynchronous training: the script runs in one more process, "
        "the chief, and the workers are servers that it gives work to (default: %(default)s)",
    )
    parser.add_argument(
        "--gpus-per-worker",
        type=int,
        metavar="N",
        help="default: all there are, shared out evenly; 0 for none",
    )
    parser.add_argument(
        "--cpus-per-worker", type=int, metavar="N", help="default: each may use all processors"
    )
    parser.add_argument(
        "--restarts",
        type=int,
        default=0,
        metavar="K",
        help="start all again after a failure, up to K times (default: %(default)s)",
    )
    parser.add_argument(
        "--log-dir", type=folder, help="where the output of each process gets a file of its own"
    )
    parser.add_argument(
        "--monitor",
        action="store_true",
        help="as keras-gpukit run in each process: a Monitor in every fit(), and one report on all "
        "processes, in --log-dir or else in logs",
    )
    parser.add_argument(
        "--timeout",
        type=_seconds,
        metavar="SECONDS",
        help="how long after the first process the last one may join (default: 600)",
    )
    parser.add_argument(
        "--grace",
        type=_seconds,
        metavar="SECONDS",
        help="from SIGTERM to SIGKILL, where processes are stopped (default: 5)",
    )
    launch_elsewhere.add_flags(parser)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds above 0")
    return seconds


def run(args: argparse.Namespace) -> int:
    """Runs the job."""
    from keras_gpukit.distributed.launching.job import Job, job_name

    first = ("-m", args.module) if args.module is not None else (args.script,)
    command = (*(each for each in first if each is not None), *args.script_arguments)
    log_dir: Path | None = args.log_dir
    try:
        job = Job(
            name=args.name or job_name(command) or "job",
            command=command,
            workers=args.workers,
            parameter_servers=args.ps,
            gpus_per_worker=args.gpus_per_worker,
            cpus_per_worker=args.cpus_per_worker,
            restarts=args.restarts,
            log_dir=log_dir,
        )
        if launch_elsewhere.is_elsewhere(args):
            return launch_elsewhere.launch_elsewhere(job, args)
        return _launch_here(job, args)
    except ValueError as error:
        args.error(str(error))
    except BrokenPipeError:  # the program that reads the output, such as `head`, has ended
        return 141  # 128 plus the number of SIGPIPE
    except OSError as error:
        fail("launch", error)
    return 2


def _launch_here(job: Job, args: argparse.Namespace) -> int:
    if sys.platform == "win32":
        raise ValueError("Processes of one job can be started on Linux and macOS only.")
    from keras_gpukit.distributed.launching.local import launch

    timeout_s, grace_s = args.timeout or 600.0, args.grace or 5.0
    if not args.monitor:
        return launch(job, timeout_s=timeout_s, grace_s=grace_s)
    from keras_gpukit.scripts.conclusion import Conclusion
    from keras_gpukit.scripts.run_folder import SHARED, RunFolder
    from keras_gpukit.scripts.watched_fits import WatchedFits

    run_folder = RunFolder((job.log_dir or Path("logs")).expanduser().absolute(), job.name)
    conclusion = Conclusion(WatchedFits(run_folder), run_folder, opens=False, command="launch")
    code = launch(
        job,
        timeout_s=timeout_s,
        grace_s=grace_s,
        runner=("-m", "keras_gpukit", "run"),
        variables={SHARED: str(run_folder.path())},
    )
    if code == 0:
        conclusion.tell()
    elif any(run_folder.path().glob(f"*/{FOLDER}/*.jsonl")):
        # Without the verdict, so that the failure stays visible.
        path = shlex.quote(str(run_folder.path()))
        print(f"To see what was recorded: keras-gpukit report {path}", file=sys.stderr)
    return code
