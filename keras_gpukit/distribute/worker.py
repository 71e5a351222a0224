"""Which of the processes that train together this one is."""

from __future__ import annotations

import json
import os
from typing import Any

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
            return _worker(cluster, resolver.task_type, resolver.task_id)
        config = json.loads(os.environ.get("TF_CONFIG") or "{}")
        task = config.get("task", {})
        return _worker(config.get("cluster", {}), task.get("type"), task.get("index"))
    except Exception:  # both may hold anything, and only strategies have to understand it
        return None


def _worker(cluster: dict[str, Any], task_type: str | None, task_index: Any) -> Worker | None:
    """Counts as `multi_worker_util.id_in_cluster` and `worker_count` of TensorFlow 2.21 do."""
    if not cluster:
        return None
    chiefs, workers = len(cluster.get("chief", ())), len(cluster.get("worker", ()))
    if "ps" in cluster:  # the chief coordinates: it alone runs `fit`, and trains nothing itself
        return Worker(task_type, None, workers or None)
    index = None
    if task_type in ("chief", "worker") and task_index is not None:
        index = int(task_index) + (chiefs if task_type == "worker" else 0)
    return Worker(task_type, index, chiefs + workers or None)
