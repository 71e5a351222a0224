"""Clusters from the variables that Slurm's `srun` sets for each task of a job step.

TensorFlow's `SlurmClusterResolver` reads the same variables. But it fails without GPUs, overwrites
`CUDA_VISIBLE_DEVICES`, runs `scontrol`, and gives every job on a machine the same ports.

The short notations for node lists and tasks per node are described in the manual pages of `srun`
and `sbatch` (SLURM_JOB_NODELIST, SLURM_TASKS_PER_NODE). `scontrol show hostnames` expands them,
too, but is missing in most containers.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable
from typing import TypeVar

from keras_gpukit.distributed.clusters.cluster_kind import (
    ClusterKind,
    Variables,
    first_port,
    read_ranks,
    with_ports,
    wrong,
)
from keras_gpukit.errors import ClusterError
from keras_gpukit.records.cluster import Cluster

_NAME = re.compile(r"(?:[^,\[\]]|\[[\d,-]+\])+")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_TASKS = re.compile(r"(\d+)(?:\(x(\d+)\))?")


def expand_nodes(nodes: str) -> tuple[str, ...]:
    """Returns the names in a node list: "n[1-2,07],gpu" stands for n1, n2, n07 and gpu."""
    names: list[str] = []
    end = 0
    for match in _NAME.finditer(nodes):
        if match.start() != end or nodes[match.end() : match.end() + 1] not in ("", ","):
            raise ValueError(nodes)
        parts = re.split(r"\[([\d,-]+)\]", match.group())
        choices = [_numbers(part) if odd % 2 else [part] for odd, part in enumerate(parts)]
        names.extend("".join(combination) for combination in itertools.product(*choices))
        end = match.end() + 1
    if not names or end <= len(nodes):
        raise ValueError(nodes)
    return tuple(names)


def _numbers(ranges: str) -> list[str]:
    """Returns the numbers in a list of ranges: "1-3,07" stands for 1, 2, 3 and 07."""
    numbers: list[str] = []
    for range_ in ranges.split(","):
        match = _RANGE.fullmatch(range_)
        if match is None:
            raise ValueError(ranges)
        first, last = match[1], match[2] or match[1]
        if int(last) < int(first):
            raise ValueError(ranges)
        numbers.extend(f"{n:0{len(first)}d}" for n in range(int(first), int(last) + 1))
    return numbers


def expand_tasks(tasks: str) -> tuple[int, ...]:
    """Returns how many tasks each node has: "2(x3),1" stands for 2, 2, 2 and 1."""
    counts: list[int] = []
    for entry in tasks.split(","):
        match = _TASKS.fullmatch(entry)
        if match is None:
            raise ValueError(tasks)
        counts.extend([int(match[1])] * int(match[2] or 1))
    return tuple(counts)


def node_of_each_task(counts: tuple[int, ...], plane: int) -> tuple[int, ...]:
    """Returns the index of the node that each task is on, given how many tasks each node has.

    `plane` consecutive tasks go to a node per turn: 1 for Slurm's distribution "cyclic", at least
    the number of its tasks for "block".
    """
    left = list(counts)
    nodes: list[int] = []
    while any(left):
        for node, tasks in enumerate(left):
            taken = min(plane, tasks)
            nodes.extend([node] * taken)
            left[node] -= taken
    return tuple(nodes)


NODE_ADDRESSES = "GPUKIT_NODE_ADDRESSES"
START_WITH_SRUN = "Start the script with `srun python …`, and pass all SLURM_ variables on to it."
MOST_STEPS = 101  # a prime, so that steps of neighbouring jobs get different ports

Expanded = TypeVar("Expanded")


def _read(variables: Variables) -> Cluster | None:
    """Returns the cluster of the job step; None if the step, or the whole job, has one task."""
    if not (variables.get("SLURM_STEP_ID") or variables.get("SLURM_STEP_NUM_TASKS")):
        _check_started_alone(variables)
        return None
    if variables.environment.get("SLURM_STEP_NUM_TASKS", "").strip() == "1":
        return None
    if variables.get("SLURM_HET_SIZE") is not None:
        advice = "Set TF_CONFIG in each task, or submit a job of one component."
        received = variables.used["SLURM_HET_SIZE"]
        accepted = "is set: in a job of several components, no task knows the others' nodes"
        raise wrong("SLURM_HET_SIZE", received, accepted, advice)
    job = variables.whole_number("SLURM_JOB_ID", START_WITH_SRUN)
    step = variables.whole_number("SLURM_STEP_ID", START_WITH_SRUN)

    def find(rank: int, size: int) -> tuple[str, ...]:
        hosts = _hosts(variables, size, rank)
        return with_ports(hosts, first_port(variables, job + MOST_STEPS * step))

    source = f"Slurm job {job}, step {step}"
    names = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS")
    return read_ranks("Slurm", source, variables, names, (START_WITH_SRUN,) * 2, find)


def _check_started_alone(variables: Variables) -> None:
    """Checks that a process outside a job step belongs to a job of one task and one node.

    Such a process was started by the batch script itself, or in the shell of `salloc`.
    """
    for name, noun in (("SLURM_NTASKS", "tasks"), ("SLURM_JOB_NUM_NODES", "nodes")):
        if variables.get(name) is None:
            continue
        count = variables.whole_number(name, START_WITH_SRUN, least=1)
        if count > 1:
            raise ClusterError(
                f"The Slurm job has {count} {noun}, and this process was started without `srun`, "
                f"so that it would train alone. {START_WITH_SRUN} If one process is to train "
                "alone, ask Slurm for --nodes=1 --ntasks=1 (and cores by --cpus-per-task). "
                f"Received: {name}='{count}', SLURM_STEP_ID=None"
            )


def _hosts(variables: Variables, size: int, rank: int) -> list[str]:
    """Returns the host of each task, from the node list and the tasks per node."""
    nodes = _expand(variables, "SLURM_STEP_NODELIST", expand_nodes, "a list of nodes")
    counts = _expand(variables, "SLURM_STEP_TASKS_PER_NODE", expand_tasks, "a list of counts")
    if len(counts) != len(nodes) or sum(counts) != size:
        accepted = f"must give {len(nodes)} nodes {size} tasks in all (SLURM_STEP_NUM_TASKS)"
        received = variables.used["SLURM_STEP_TASKS_PER_NODE"]
        raise wrong("SLURM_STEP_TASKS_PER_NODE", received, accepted, START_WITH_SRUN)
    placed = node_of_each_task(counts, _plane(variables))
    own = variables.whole_number("SLURM_NODEID", START_WITH_SRUN)
    if placed[rank] != own:
        accepted = f"must be {placed[rank]}, where the step's node list places task {rank}"
        advice = "Start the step with `srun --distribution=block`."
        raise wrong("SLURM_NODEID", str(own), accepted, advice)
    by_node = _node_addresses(variables)
    return [by_node.get(nodes[node], nodes[node]) for node in placed]


def _expand(
    variables: Variables, name: str, expand: Callable[[str], Expanded], accepted: str
) -> Expanded:
    value = variables.require(name, START_WITH_SRUN)
    try:
        return expand(value)
    except ValueError as error:
        raise wrong(
            name, value, f"must be {accepted} as Slurm writes it", START_WITH_SRUN
        ) from error


def _plane(variables: Variables) -> int:
    """Returns how many consecutive tasks a node gets per turn, given the step's distribution."""
    distribution = re.split("[:,]", variables.get("SLURM_DISTRIBUTION") or "block")[0].lower()
    if distribution == "cyclic":
        return 1
    size = re.fullmatch(r"plane=([1-9]\d*)", distribution)
    if size is None and distribution == "plane":
        size = re.fullmatch(r"([1-9]\d*)", variables.get("SLURM_DIST_PLANESIZE") or "")
    # Any other distribution counts as "block"; the check of SLURM_NODEID finds out if it differs.
    return int(size[1]) if size else sys.maxsize


def _node_addresses(variables: Variables) -> dict[str, str]:
    """Returns the addresses in `GPUKIT_NODE_ADDRESSES`, for nodes not reached by their names."""
    value = variables.get(NODE_ADDRESSES) or ""
    advice = "Set it to node=address for each node, separated by commas, or unset it."
    addresses = {}
    for pair in filter(None, re.split(r"[,\s]+", value)):
        node, equals, address = pair.partition("=")
        if not node or not equals or not address:
            raise wrong(NODE_ADDRESSES, value, "must give each node an address", advice)
        addresses[node] = address
    return addresses


SLURM = ClusterKind(
    lambda environment: bool(environment.get("SLURM_JOB_ID") or environment.get("SLURM_PROCID")),
    _read,
)
