"""Clusters, read from environment variables: one class for each kind of environment."""

from keras_gpukit.distributed.clusters.registry import ENVIRONMENTS, read_cluster

__all__ = ["ENVIRONMENTS", "read_cluster"]
