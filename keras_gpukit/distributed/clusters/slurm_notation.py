"""Expands Slurm's short notations for node lists and tasks per node.

`scontrol show hostnames` expands node lists, too, but is missing in most containers. The manual
pages of `srun` and `sbatch` describe the notations (SLURM_JOB_NODELIST, SLURM_TASKS_PER_NODE).
"""

from __future__ import annotations

import itertools
import re

_NAME = re.compile(r"(?:[^,\[\]]|\[[\d,-]+\])+")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_TASKS = re.compile(r"(\d+)(?:\(x(\d+)\))?")


def expand_nodes(nodes: str) -> tuple[str, ...]:
    """Returns the names in a node list: "n[1-2,07],gpu" stands for n1, n2, n07 and gpu.

    Args:
        nodes: Node list. A name may have several brackets; numbers keep their leading zeros.

    Raises:
        ValueError: If `nodes` is not a node list.
    """
    names: list[str] = []
    end = 0
    for match in _NAME.finditer(nodes):
        if match.start() != end or nodes[match.end() : match.end() + 1] not in ("", ","):
            raise ValueError(nodes)
        parts = re.split(r"\[([\d,-]+)\]", match.group())
        choices = [_numbers(part) if odd % 2 else [part] for odd, part in enumerate(parts)]
        names.extend("".join(each) for each in itertools.product(*choices))
        end = match.end() + 1
    if not names or end <= len(nodes):
        raise ValueError(nodes)
    return tuple(names)


def _numbers(ranges: str) -> list[str]:
    """Returns the numbers in a list of ranges: "1-3,07" stands for 1, 2, 3 and 07."""
    numbers: list[str] = []
    for each in ranges.split(","):
        match = _RANGE.fullmatch(each)
        if match is None:
            raise ValueError(ranges)
        first, last = match[1], match[2] or match[1]
        if int(last) < int(first):
            raise ValueError(ranges)
        numbers.extend(f"{n:0{len(first)}d}" for n in range(int(first), int(last) + 1))
    return numbers


def expand_tasks(tasks: str) -> tuple[int, ...]:
    """Returns how many tasks each node has: "2(x3),1" stands for 2, 2, 2 and 1.

    Raises:
        ValueError: If `tasks` is not in this notation.
    """
    counts: list[int] = []
    for each in tasks.split(","):
        match = _TASKS.fullmatch(each)
        if match is None:
            raise ValueError(tasks)
        counts.extend([int(match[1])] * int(match[2] or 1))
    return tuple(counts)


def node_of_each_task(counts: tuple[int, ...], plane: int) -> tuple[int, ...]:
    """Returns the index of the node that each task is on.

    Args:
        counts: Number of tasks on each node.
        plane: Consecutive tasks that a node gets per turn: 1 for Slurm's distribution "cyclic", at
            least the number of its tasks for "block".
    """
    left = list(counts)
    nodes: list[int] = []
    while any(left):
        for node, tasks in enumerate(left):
            taken = min(plane, tasks)
            nodes.extend([node] * taken)
            left[node] -= taken
    return tuple(nodes)
