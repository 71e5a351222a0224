"""The part of `keras-gpukit launch` that prints a job for a cluster, or submits it."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keras_gpukit.distributed.launching.job import Job

_SBATCH = ("sbatch",)
_KUBECTL = ("kubectl", "apply", "-f", "-")
_KINDS = ("trainjob", "job")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags to the parser of `launch`."""
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
    group.add_argument("--submit", action="store_true", help="run sbatch or kubectl apply with it")
    group.add_argument("--name", help="of the job (default: that of the script)")
    group.add_argument("--image", help="for Kubernetes: a container image with the script")
    group.add_argument(
        "--volume",
        type=_volume,
        metavar="CLAIM:PATH",
        help="for Kubernetes: a PersistentVolumeClaim, and where all processes see it",
    )
    group.add_argument(
        "--shared-memory",
        metavar="SIZE",
        help="for Kubernetes: the size of /dev/shm (default: 8Gi)",
    )


def complete(words: Sequence[str]) -> list[str]:
    """Adds the default of `--kubernetes`: argparse would take the next word, even the script."""
    if words[:1] != ["launch"]:  # in other commands, the flag has no value
        return list(words)
    return [
        "--kubernetes=trainjob" if word == "--kubernetes" and following not in _KINDS else word
        for word, following in zip(words, [*words[1:], ""], strict=True)
    ]


def _volume(text: str) -> tuple[str, str]:
    claim, _, path = text.partition(":")
    if not claim or not path.startswith("/"):
        raise argparse.ArgumentTypeError(f"{text} is not a CLAIM:PATH with an absolute path")
    return claim, path


def is_elsewhere(args: argparse.Namespace) -> bool:
    """Whether the job is for a cluster."""
    if args.submit and not (args.slurm or args.kubernetes):
        raise ValueError("--submit needs --slurm or --kubernetes.")
    if not args.kubernetes and (args.image or args.volume or args.shared_memory):
        raise ValueError("--image, --volume and --shared-memory need --kubernetes.")
    is_elsewhere = bool(args.slurm or args.kubernetes)
    if is_elsewhere and args.monitor:
        raise ValueError(
            "--monitor works on this machine only. On a cluster, add a Monitor to the callbacks of "
            "fit, with a log folder that all processes share."
        )
    if is_elsewhere and (args.timeout or args.grace):
        raise ValueError("--timeout and --grace work on this machine only: a cluster has its own.")
    return is_elsewhere


def launch_elsewhere(job: Job, args: argparse.Namespace) -> int:
    """Prints the job's script or manifest, or submits it."""
    text = _slurm(job, args) if args.slurm else _kubernetes(job, args)
    if args.submit:
        return _submit(text, _SBATCH if args.slurm else _KUBECTL)
    sys.stdout.write(text)
    return 0


def _slurm(job: Job, args: argparse.Namespace) -> str:
    from keras_gpukit.distributed.launching.elsewhere import batch_script

    script = batch_script(job, python=sys.executable)
    if job.log_dir is not None and args.submit:
        job.log_dir.mkdir(parents=True, exist_ok=True)  # Slurm does not create it
    return script


def _kubernetes(job: Job, args: argparse.Namespace) -> str:
    from keras_gpukit.distributed.launching.elsewhere import Pods, indexed_job, train_job

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
