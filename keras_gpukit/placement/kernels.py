"""An operation's kernels for a GPU, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Kernel:
    """A kernel that a GPU can be given.

    Attributes:
        allowed: The dtypes it takes, by type attribute; one not named takes any.
        host_arguments: Arguments that it keeps in host memory.
    """

    allowed: Mapping[str, frozenset[str]]
    host_arguments: frozenset[str]


@dataclass(frozen=True)
class OperationKernels:
    """An operation's arguments, and its kernels for a GPU.

    Resource handles are left out of the arguments: they always live in host memory.

    Attributes:
        inputs: Names of its inputs.
        outputs: Names of its outputs.
        uses_resource: Whether it takes a variable, a table or the like.
        gpu: Its kernels for a GPU, those TensorFlow prefers first.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    uses_resource: bool
    gpu: tuple[Kernel, ...]
