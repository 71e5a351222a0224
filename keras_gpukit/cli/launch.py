"""`keras-gpukit launch` and `input-service`: a script, or its input, in several processes."""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_gpukit.cli.command_line import above_0, add_command, fail, folder, positive
from keras_gpukit.errors import NOT_ON_WINDOWS
from keras_gpukit.records.names import FOLDER

if TYPE_CHECKING:
    from keras_gpukit.distributed.launching.job import Job

USAGE = "keras-gpukit launch --workers N [OPTION ...] (SCRIPT | -m MODULE) [ARGUMENT ...]"
DESCRIPTION = """\
Starts a training script as several processes that train one model. Each gets its place in the
cluster by TF_CONFIG, and its share of the GPUs. Output lines start with the process's name. If one
process fails, all are stopped; its traceback comes last, and its exit code is that of this command.
For Slurm or Kubernetes, prints a batch script or a manifest instead."""
_SBATCH = ("sbatch",)
_KUBECTL = ("kubectl", "apply", "-f", "-")
_KINDS = ("trainjob", "job")


def add_parser(subparsers: Any) -> None:
    """Adds both commands to the `keras-gpukit` parser."""
    _add_input_service(subparsers)
    parser = add_command(
        subparsers,
        "launch",
        run,
        script="a Python file",
        help="start a training script as several processes that train one model",
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
        help="parameter servers, for asynchronous training; the script then runs in one more "
        "process, the chief, which gives the workers their work (default: %(default)s)",
    )
    parser.add_argument(
        "--gpus-per-worker",
        type=int,
        metavar="N",
        help="default: all GPUs, divided evenly; 0 trains on CPUs",
    )
    parser.add_argument(
        "--cpus-per-worker", type=int, metavar="N", help="default: each may use all"
    )
    parser.add_argument(
        "--restarts",
        type=int,
        default=0,
        metavar="K",
        help="start all again after a failure, up to K times (default: %(default)s)",
    )
    parser.add_argument("--log-dir", type=folder, help="folder for the output of each process")
    parser.add_argument(
        "--monitor",
        action="store_true",
        help="add a Monitor to every fit(), as keras-gpukit run does, and write one report on all "
        "processes, in --log-dir or logs",
    )
    parser.add_argument(
        "--timeout",
        type=above_0,
        metavar="SECONDS",
        help="how long to wait for the last process after the first has joined (default: 600)",
    )
    parser.add_argument(
        "--grace",
        type=above_0,
        metavar="SECONDS",
        help="time from SIGTERM to SIGKILL when processes are stopped (default: 5)",
    )
    _add_cluster_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Runs the job."""
    from keras_gpukit.distributed.launching.job import Job, job_name

    first = ("-m", args.module) if args.module is not None else (args.script,)
    command = (*(word for word in first if word is not None), *args.script_arguments)
    try:
        job = Job(
            name=args.name or job_name(command) or "job",
            command=command,
            workers=args.workers,
            parameter_servers=args.ps,
            gpus_per_worker=args.gpus_per_worker,
            cpus_per_worker=args.cpus_per_worker,
            restarts=args.restarts,
            log_dir=args.log_dir,
        )
        return _launch_elsewhere(job, args) if _is_elsewhere(args) else _launch_here(job, args)
    except ValueError as error:
        args.error(str(error))
    except BrokenPipeError:  # the program that reads the output, such as `head`, has ended
        return 141  # 128 plus the number of SIGPIPE
    except OSError as error:
        fail("launch", error)
    return 2


def _launch_here(job: Job, args: argparse.Namespace) -> int:
    if sys.platform == "win32":
        return fail("launch", f"{NOT_ON_WINDOWS} --slurm and --kubernetes work here.")
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
        conclusion.report()
    elif any(run_folder.path().glob(f"*/{FOLDER}/*.jsonl")):
        # Without the verdict, so that the failure stays visible.
        path = shlex.quote(str(run_folder.path()))
        print(f"To see what was recorded: keras-gpukit report {path}", file=sys.stderr)
    return code


def complete(words: Sequence[str]) -> list[str]:
    """Adds the default of `--kubernetes`: argparse would take the next word, even the script."""
    if words[:1] != ["launch"]:  # in other commands, the flag has no value
        return list(words)
    return [
        "--kubernetes=trainjob" if word == "--kubernetes" and following not in _KINDS else word
        for word, following in zip(words, [*words[1:], ""], strict=True)
    ]


def _add_cluster_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "on a cluster",
        "Print a batch script or a manifest for the same job instead of starting it.",
    )
    target = group.add_mutually_exclusive_group()
    target.add_argument("--slurm", action="store_true", help="a script for sbatch")
    target.add_argument(
        "--kubernetes",
        nargs="?",  # see `complete`
        choices=_KINDS,
        metavar="{trainjob,job}",
        help="a manifest for kubectl: a TrainJob of Kubeflow Trainer 2, or a plain Indexed Job "
        "(--kubernetes alone: trainjob)",
    )
    group.add_argument(
        "--submit", action="store_true", help="submit it with sbatch or kubectl apply"
    )
    group.add_argument("--name", help="name of the job (default: that of the script)")
    group.add_argument("--image", help="for Kubernetes: a container image with the script")
    group.add_argument(
        "--volume",
        type=_volume,
        metavar="CLAIM:PATH",
        help="for Kubernetes: a PersistentVolumeClaim, and where to mount it",
    )
    group.add_argument(
        "--shared-memory",
        metavar="SIZE",
        help="for Kubernetes: the size of /dev/shm (default: 8Gi)",
    )


def _volume(text: str) -> tuple[str, str]:
    claim, _, path = text.partition(":")
    if not claim or not path.startswith("/"):
        raise argparse.ArgumentTypeError(f"{text} is not a CLAIM:PATH with an absolute path")
    return claim, path


def _is_elsewhere(args: argparse.Namespace) -> bool:
    """Whether the job is for a cluster."""
    is_elsewhere = bool(args.slurm or args.kubernetes)
    if args.submit and not is_elsewhere:
        raise ValueError("--submit needs --slurm or --kubernetes.")
    if not args.kubernetes and (args.image or args.volume or args.shared_memory):
        raise ValueError("--image, --volume and --shared-memory need --kubernetes.")
    if is_elsewhere and args.monitor:
        raise ValueError(
            "--monitor works on this machine only. On a cluster, add a Monitor to the callbacks of "
            "fit, with a log folder that all processes share."
        )
    if is_elsewhere and (args.timeout or args.grace):
        raise ValueError("--timeout and --grace work on this machine only: a cluster has its own.")
    return is_elsewhere


def _launch_elsewhere(job: Job, args: argparse.Namespace) -> int:
    """Prints the job's script or manifest, or submits it."""
    text = _slurm(job, args) if args.slurm else _kubernetes(job, args)
    if args.submit:
        return _submit(text, _SBATCH if args.slurm else _KUBECTL)
    sys.stdout.write(text)
    return 0


def _slurm(job: Job, args: argparse.Namespace) -> str:
    from keras_gpukit.distributed.launching.job_templates import batch_script

    script = batch_script(job, python=sys.executable)
    if job.log_dir is not None and args.submit:
        job.log_dir.mkdir(parents=True, exist_ok=True)  # Slurm does not create it
    return script


def _kubernetes(job: Job, args: argparse.Namespace) -> str:
    from keras_gpukit.distributed.launching.job_templates import Pods, indexed_job, train_job

    if not args.image:
        raise ValueError("--kubernetes needs --image: a container image that has the script.")
    if job.log_dir is not None:
        raise ValueError(
            "--log-dir is not for --kubernetes, which keeps the output of each pod: kubectl logs. "
            f"Received: --log-dir={job.log_dir}"
        )
    optional = {"shared_memory": args.shared_memory} if args.shared_memory else {}
    pods = Pods(image=args.image, volume=args.volume, **optional)
    return (train_job if args.kubernetes == "trainjob" else indexed_job)(job, pods)


def _submit(text: str, command: tuple[str, ...]) -> int:
    """Submits a job by running the cluster's own program, with the text as standard input."""
    program = shutil.which(command[0])
    if program is None:
        raise FileNotFoundError(
            f"--submit needs {command[0]}, which this machine does not have. Run this on one of "
            "the cluster, or leave --submit out and pass what is printed to "
            f"{' '.join(command)} there."
        )
    return subprocess.run([program, *command[1:]], input=text, text=True, check=False).returncode


_SERVICE = re.compile(r"[a-z]([-a-z0-9]{0,48}[a-z0-9])?")


def _add_input_service(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "input-service",
        help="move input to other processes or machines (tf.data service)",
        description="Starts a tf.data service on this machine until Ctrl-C, or prints the "
        "manifests for Kubernetes. Python functions in a pipeline, such as numpy_function and "
        "generators, cannot be moved.",
    )
    parser.add_argument(
        "--workers", type=positive, default=2, metavar="N", help="number of workers (default: 2)"
    )
    parser.add_argument(
        "--port", type=_port, default=5050, help="port of the dispatcher, 0 for any (default: 5050)"
    )
    parser.add_argument("--kubernetes", action="store_true", help="print manifests for kubectl")
    parser.add_argument("--image", help="for Kubernetes: a container image with keras-gpukit")
    parser.add_argument(
        "--name",
        type=_service_name,
        default="input-service",
        help="for Kubernetes: name of the service (default: input-service)",
    )
    parser.set_defaults(func=run_service)


def run_service(args: argparse.Namespace) -> int:
    """Runs the service until it is stopped, or prints the manifests."""
    from keras_gpukit.distributed.launching.job_templates import input_service_manifest

    try:
        if args.kubernetes:
            if not args.image:
                raise ValueError("--kubernetes needs --image: a container image.")
            sys.stdout.write(input_service_manifest(args.name, args.image, args.workers))
            return 0
        if sys.platform == "win32":
            return fail("input-service", f"{NOT_ON_WINDOWS} --kubernetes works here.")
        from keras_gpukit.distributed.launching.servers import serve_input

        return serve_input(args.workers, args.port)
    except (OSError, ValueError) as error:
        return fail("input-service", error)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"must be a port from 0 to 65535, and is {text!r}")
    return int(text)


def _service_name(text: str) -> str:
    if not _SERVICE.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"must be letters, digits and dashes that begin with a letter, and is {text!r}"
        )
    return text
