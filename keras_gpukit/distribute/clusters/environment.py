"""What a kind of cluster environment is, and its variables, read with errors that name them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from keras_gpukit.errors import ClusterError
from keras_gpukit.records.cluster import Cluster


class Variables:
    """Reads environment variables, and remembers which ones it read. An empty one is as unset.

    Attributes:
        environment: All variables.
        used: Those that were read and are set.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.used: dict[str, str] = {}
        self.environment = environment

    def get(self, name: str) -> str | None:
        """Returns a variable's value without surrounding spaces; None where it is not set."""
        value = self.environment.get(name, "").strip()
        if not value:
            return None
        self.used[name] = value
        return value

    def require(self, name: str, advice: str) -> str:
        """Returns the value of a variable that must be set.

        Args:
            name: Its name.
            advice: What to do where it is not, in a sentence.

        Raises:
            ClusterError: If it is not set.
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
            name: Its name.
            advice: What to do where it is not, in a sentence.
            least: The smallest number accepted.

        Raises:
            ClusterError: If it is not set, or is something else.
        """
        value = self.require(name, advice)
        if not (value.isascii() and value.isdigit()) or int(value) < least:
            raise wrong(name, value, f"must be a whole number from {least} on", advice)
        return int(value)

    def rank_and_size(self, rank_name: str, size_name: str, advice: str) -> tuple[int, int]:
        """Returns a process's number, from 0, and how many there are.

        Raises:
            ClusterError: If one is missing or wrong, or the number is not below the count.
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

    Subclasses read variables and nothing else: no file, no network, no program. They write none.

    Attributes:
        kind: The `kind` of its clusters.
    """

    kind: ClassVar[str]

    @abstractmethod
    def detects(self, environment: Mapping[str, str]) -> bool:
        """Whether the variables are of this kind, complete or not."""

    @abstractmethod
    def read(self, variables: Variables) -> Cluster | None:
        """Returns the cluster; None where this process is the only one.

        Raises:
            ClusterError: If a variable is missing or wrong.
        """
