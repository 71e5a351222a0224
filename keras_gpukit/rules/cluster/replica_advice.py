"""Advice on a dataset or a model that several replicas are to train on.

The sharding policies are those of `tf.data.experimental.AutoShardPolicy`,
https://www.tensorflow.org/api_docs/python/tf/data/experimental/AutoShardPolicy.
"""

from __future__ import annotations

from collections.abc import Iterator

from keras_gpukit.records.cluster import ReplicaInput

# Batch normalization has the same error on ImageNet with 16 examples per replica as with 32, and a
# larger error with fewer: Wu and He 2018, "Group Normalization",
# https://arxiv.org/abs/1803.08494, table 2.
FEWEST_FOR_STATISTICS = 16


def advise(given: ReplicaInput) -> tuple[str, ...]:
    """Returns what to change, in sentences; empty if nothing is seen to be wrong."""
    if given.replicas == 1:
        return ()
    return (*_shards(given), *_batches(given), *_statistics(given))


def _shards(given: ReplicaInput) -> Iterator[str]:
    workers, files = given.workers, given.files
    by_file = given.policy == "FILE" or (given.policy == "AUTO" and files is not None)
    if workers == 1:
        return
    if given.policy == "OFF":
        yield (
            f"AutoShardPolicy.OFF gives every worker all of the data: an epoch is {workers} passes "
            "over it, with the same examples on all unless they shuffle differently. Use DATA or "
            "FILE, or shard the dataset yourself by worker."
        )
    elif by_file and files is not None and files < workers:
        yield (
            f"{files} files cannot be shared among {workers} workers, so that TensorFlow fails or "
            "workers get no data. Write the data to more files, at least one for each worker, or "
            "set AutoShardPolicy.DATA."
        )
    elif by_file and files is not None and files % workers:
        yield (
            f"{files} files among {workers} workers: some get {files // workers + 1} and others "
            f"{files // workers}, so that the epoch of some ends early. Use a multiple of "
            f"{workers} files, or repeat() with steps_per_epoch."
        )
    elif given.policy in ("DATA", "AUTO") and not by_file:
        yield (
            f"Each of {workers} workers reads all of the data and uses 1/{workers} of it, as it is "
            "shared out by elements. If reading is slow, read from files and set "
            "AutoShardPolicy.FILE."
        )


def _batches(given: ReplicaInput) -> Iterator[str]:
    replicas, batch, last = given.replicas, given.batch, given.last_batch
    if batch is not None and batch % replicas:
        yield (
            f"A batch of {batch} is not a multiple of {replicas} replicas, which get unequal "
            f"shares. Use {batch + replicas - batch % replicas}."
        )
    if batch is not None and last is not None and last != batch and not given.drops_remainder:
        share = "some replicas get none of them" if last < replicas else "its replicas' are small"
        yield (
            f"The last batch of an epoch has {last} of {batch} examples, and {share}: its "
            "gradients weigh too much, and shapes change. Use batch(..., drop_remainder=True)."
        )


def _statistics(given: ReplicaInput) -> Iterator[str]:
    if not given.batch_norms or given.batch is None:
        return
    share = given.batch // given.replicas
    if share < FEWEST_FOR_STATISTICS:
        yield (
            f"{given.batch_norms} BatchNormalization layers compute their statistics on the "
            f"{share} examples of each replica; below {FEWEST_FOR_STATISTICS} the accuracy suffers "
            "(Wu and He 2018). Use BatchNormalization(synchronized=True), or a larger batch."
        )
