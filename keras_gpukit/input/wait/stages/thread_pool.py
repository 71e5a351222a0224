"""How many calls of a parallel stage tf.data's thread pool really runs at the same time.

A parallel stage hands each call to a thread of a pool, and a call that waits keeps its thread. With
more `num_parallel_calls` than threads, the other calls are queued.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from keras_gpukit.input.pipelines.structure import stages
from keras_gpukit.input.wait.stages.readings import MeasuredNode
from keras_gpukit.sensors.interpreter import usable_cores

POOLED = {"ParallelMap", "MapAndBatch", "ParallelFilter", "ParallelBatch"}


def pool_threads(dataset: Any) -> int | None:
    """Returns the number of threads that run the functions of a pipeline; None for no limit.

    By default there is one per core: TensorFlow's inter-op threads. The pool counts as unlimited if
    a stage does not use it (`use_unbounded_threadpool`).
    """
    import tensorflow as tf

    if any(getattr(stage, "_use_unbounded_threadpool", False) for stage in stages(dataset)):
        return None
    own = dataset.options().threading.private_threadpool_size
    return own or tf.config.threading.get_inter_op_parallelism_threads() or usable_cores()


def within_pool(stage: MeasuredNode, threads: int) -> MeasuredNode:
    """Returns a pipeline whose parallel stages run no more calls at a time than there are threads.

    Args:
        stage: Stage that training fetches from, with the parallelism that it was set to.
        threads: Number of threads in the pool.
    """
    queues = stage.kind in POOLED and stage.parallelism > threads
    return replace(
        stage,
        parallelism=threads if queues else stage.parallelism,
        asked_parallelism=stage.parallelism if queues else None,
        inputs=tuple(within_pool(each, threads) for each in stage.inputs),
        nested=tuple(within_pool(each, threads) for each in stage.nested),
    )
