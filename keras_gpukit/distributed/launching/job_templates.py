"""Jobs for other machines: batch scripts for Slurm, manifests for Kubernetes, from templates."""

from __future__ import annotations

import json
import math
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_gpukit.distributed.launching.job import RUNNER, SERVERS, Job
from keras_gpukit.version import __version__

_INPUT_PORT = 5050
_TEMPLATES = Path(__file__).parent / "templates"


def render(template: str, **values: Any) -> str:
    """Returns a template with its values filled in; its filter `yaml` quotes a value."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # nothing here is HTML
    )
    environment.filters["yaml"] = json.dumps  # JSON is YAML
    return environment.get_template(template).render(values)


def batch_script(job: Job, *, python: str = "python") -> str:
    """Returns a script for `sbatch` that runs a job, with the reason for each of its settings.

    Each worker gets a separate node, with all of the worker's GPUs. A chief and parameter servers
    share the workers' nodes.

    Args:
        job: The job to run.
        python: Python interpreter on the nodes.

    Raises:
        ValueError: If the job's name or log folder cannot be written in a line of `#SBATCH`.
    """
    log_dir = "" if job.log_dir is None else str(job.log_dir)
    for name, value in (("name", job.name), ("log_dir", log_dir)):
        if any(character.isspace() or character in "\"'\\%" for character in value):
            raise ValueError(
                f"`{name}` must have no spaces, quotes, backslashes or % for Slurm. "
                f"Received: {name}={value!r}"
            )
    tasks = job.processes
    return render(
        "slurm.sh.j2",
        job=job,
        tasks=tasks,
        most_on_a_node=math.ceil(tasks / job.workers),
        without_gpu=[0, *range(job.workers + 1, tasks)],
        output=f"{log_dir}/%x-%j.out" if log_dir else "%x-%j.out",
        command=shlex.join((python, *RUNNER, *job.command)),
        version=__version__,
    )


PORT = 2222  # each pod has its own address, so jobs cannot collide
LONGEST_NAME = 50  # 63 for a pod's host name, less what Jobs and JobSets append
_NAME = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")


@dataclass(frozen=True, kw_only=True)
class Pods:
    """Settings for the pods of a job.

    Attributes:
        image: Container image with the script and keras-gpukit.
        volume: PersistentVolumeClaim and its path in the pods, such as ("data", "/data"), for
            checkpoints and logs that outlive a pod; None for no volume.
        shared_memory: Size of /dev/shm in the notation of Kubernetes.
    """

    image: str
    volume: tuple[str, str] | None = None
    shared_memory: str = "8Gi"


def train_job(job: Job, pods: Pods) -> str:
    """Returns a TrainJob of Kubeflow Trainer (v2) with a TrainingRuntime of its own, as YAML.

    Raises:
        ValueError: If Kubernetes does not accept the job's name, or `gpus_per_worker` is None.
    """
    return _manifest("trainjob.yaml.j2", job, pods, host="-node-0-{index}")


def indexed_job(job: Job, pods: Pods) -> str:
    """Returns an Indexed Job and its headless Service, as YAML.

    Raises:
        ValueError: If Kubernetes does not accept the job's name, or `gpus_per_worker` is None.
    """
    return _manifest("indexed_job.yaml.j2", job, pods, host="-{index}")


def _manifest(template: str, job: Job, pods: Pods, host: str) -> str:
    name = _name(job.name)
    if job.gpus_per_worker is None:
        raise ValueError(
            "A pod gets only the GPUs that it asks for. Give --gpus-per-worker, 0 for none. "
            "Received: gpus_per_worker=None"
        )
    return render(
        template,
        name=name,
        job=job,
        pods=pods,
        size=job.processes,
        port=PORT,
        command=["python", *RUNNER, *job.command],
        environment=_environment(job, f"{name}{host}.{name}:{PORT}"),
        version=__version__,
    )


def _name(name: str) -> str:
    """Returns a job's name in a form that Kubernetes accepts."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if not _NAME.fullmatch(plain) or len(plain) > LONGEST_NAME:
        raise ValueError(
            "Kubernetes needs a name of letters, digits and dashes that begins with a letter and "
            f"has at most {LONGEST_NAME} characters. Received: name={name!r}"
        )
    return plain


def _environment(job: Job, address: str) -> list[tuple[str, str, str]]:
    """Returns the name and value of each environment variable of the pods, with its reason."""
    variables = [
        ("GPUKIT_WORKERS", str(job.processes), "How many processes train together."),
        ("GPUKIT_ADDRESSES", address, "Where: Kubernetes gives each pod its index."),
    ]
    if job.parameter_servers:
        reason = "The last pods are parameter servers, and the first one is the chief."
        variables.append(("GPUKIT_PARAMETER_SERVERS", str(job.parameter_servers), reason))
    reason = "Print at once: a pod that is killed loses what it has not written yet."
    variables.append(("PYTHONUNBUFFERED", "1", reason))
    if job.gpus_per_worker:
        reason = "NCCL says why it fails; at its default it is silent."
        variables.append(("NCCL_DEBUG", "WARN", reason))
    return variables


def input_service_manifest(name: str, image: str, workers: int) -> str:
    """Returns the Deployments of a dispatcher and its workers, and the Service, as YAML."""
    return render(
        "input_service.yaml.j2",
        name=name,
        image=image,
        workers=workers,
        port=_INPUT_PORT,
        module=SERVERS,
        version=__version__,
    )
