"""Which of the processes that train together this one is."""

from __future__ import annotations

import json
import os
from typing import Any

from keras_gpukit.records.cluster import worker_of
from keras_gpukit.records.environment import Worker


def this_worker(model: Any = None) -> Worker | None:
    """Returns this process's place in its cluster; None outside one, or where it cannot be read.

    Args:
        model: The model that is trained. What the cluster resolver of its strategy knows, such as
            that of Slurm, takes precedence over the environment variable `TF_CONFIG`.
    """
    try:
        strategy = getattr(model, "distribute_strategy", None)
        resolver = getattr(strategy, "cluster_resolver", None)
        if resolver is not None and resolver.task_type:
            cluster = resolver.cluster_spec().as_dict()
            return worker_of(cluster, resolver.task_type, resolver.task_id)
        config = json.loads(os.environ.get("TF_CONFIG") or "{}")
        task = config.get("task", {})
        return worker_of(config.get("cluster", {}), task.get("type"), task.get("index"))
    except Exception:  # both may hold anything, and only strategies have to understand it
        return None
