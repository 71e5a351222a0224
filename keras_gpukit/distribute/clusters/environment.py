"""What a kind of cluster environment is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from keras_gpukit.distribute.clusters.variables import Variables
from keras_gpukit.records.cluster import Cluster


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
