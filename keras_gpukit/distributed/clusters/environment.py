"""Base class of the kinds of cluster environments, and a reader of variables with clear errors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from keras_gpukit.errors import ClusterError
from keras_gpukit.records.cluster import Cluster


class Variables:
    """Reads environment variables, and remembers which ones it read.

    An empty variable counts as unset.

    Attributes:
        environment: All environment variables.
        used: Variables that were read and are set, with their values.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.used: dict[str, str] = {}
        self.environment = environment

    def get(self, name: str) -> str | None:
        """Returns a variable's value without surrounding spaces; None if it is not set."""
        value = self.environment.get(name, "").strip()
        if not value:
            return None
        self.used[name] = value
        return value

    def require(self, name: str, advice: str) -> str:
        """Returns the value of a variable that must be set.

        Args:
            name: Name of the variable.
            advice: Sentence for the error message on how to set the variable.

        Raises:
            ClusterError: If the variable is not set.
        """
        value = self.get(name)
        if value is None:
            seen = ", ".join(f"{each}={value!r}" for each, value in self.used.items())
            raise ClusterError(
                f"`{name}` is not set, and without it the cluster that the environment describes "
                f"is not known. {advice} Received: {name}={self.environment.get(name)!r}"
                + (f", with {seen}" if seen else "")
            )
        return value

    def whole_number(self, name: str, advice: str, *, least: int = 0) -> int:
        """Returns the value of a variable that must be a whole number.

        Args:
            name: Name of the variable.
            advice: Sentence for the error message on how to set the variable.
            least: Smallest accepted number.

        Raises:
            ClusterError: If the variable is not set, or is not such a number.
        """
        value = self.require(name, advice)
        if not (value.isascii() and value.isdigit()) or int(value) < least:
            raise wrong(name, value, f"must be a whole number from {least} on", advice)
        return int(value)

    def rank_and_size(self, rank_name: str, size_name: str, advice: str) -> tuple[int, int]:
        """Returns the rank of this process, from 0, and the number of processes.

        Raises:
            ClusterError: If a variable is missing or wrong, or if the rank is not below the size.
        """
        size = self.whole_number(size_name, advice, least=1)
        rank = self.whole_number(rank_name, advice)
        if rank >= size:
            expected = f"must be below `{size_name}`, which is {size}"
            raise wrong(rank_name, str(rank), expected, advice)
        return rank, size


def wrong(name: str, value: str, accepted: str, advice: str) -> ClusterError:
    """Returns the error for a variable that has a wrong value."""
    return ClusterError(f"`{name}` {accepted}. {advice} Received: {name}={value!r}")


class ClusterEnvironment(ABC):
    """One kind of environment that starts processes which train together.

    Subclasses only read variables. They use no file, network or program, and write no variables.

    Attributes:
        kind: The attribute `kind` of its clusters, such as "Slurm".
    """

    kind: ClassVar[str]

    @abstractmethod
    def detects(self, environment: Mapping[str, str]) -> bool:
        """Whether the variables are of this kind, even if some are missing."""

    @abstractmethod
    def read(self, variables: Variables) -> Cluster | None:
        """Returns the cluster; None if this process is the only one in it.

        Raises:
            ClusterError: If a variable is missing or wrong.
        """
