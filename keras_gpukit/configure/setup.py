"""`GPUSetup`, the result of `configure_gpus`, and what it finds in the input of its replicas."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from rich.console import RenderableType

from keras_gpukit.arguments import check
from keras_gpukit.configure.plan import Plan
from keras_gpukit.distributed.strategies import cluster_of, is_chief, is_multi_worker
from keras_gpukit.frameworks.tf_datasets import functions, inputs, kind, number, setting, stages
from keras_gpukit.input.pipelines.functions import BATCHES, READERS, kind_of, operations
from keras_gpukit.layer_names import layers_in
from keras_gpukit.records.cluster import ReplicaInput
from keras_gpukit.records.codec import to_dict
from keras_gpukit.records.environment import GPUInfo
from keras_gpukit.records.installation import Action, Cause, TensorFlowState
from keras_gpukit.reports.setup import setup_panel, worker_lines
from keras_gpukit.reports.terminal import as_html, as_text
from keras_gpukit.rules.cluster.replica_advice import advise

_OPEN_FILES = {"Interleave", "ParallelInterleave", "FlatMap"}
# Stages after the last batching that leave the size of the batches in an epoch unchanged.
_PASS_ON = {"Prefetch", "Options", "Map", "ParallelMap", "Cache", "Shuffle"}


@dataclass(frozen=True)
class GPUSetup:
    """The setup of the GPUs, as TensorFlow reports it.

    Attributes:
        devices: Physical GPUs that are used, in TensorFlow's order; empty without a GPU.
        plan: Plan that was applied, with the reason for each action.
        state: Settings that TensorFlow and Keras reported afterwards.
        warnings: Sentences on overridden settings, on what is probably not intended, and on what
            turned out other than asked.
        strategy: The `tf.distribute` strategy; None without one.
    """

    devices: tuple[GPUInfo, ...]
    plan: Plan
    state: TensorFlowState
    warnings: tuple[str, ...] = ()
    strategy: Any = None

    @property
    def actions(self) -> tuple[Action, ...]:
        """Actions that set the GPUs up, in order."""
        return self.plan.actions

    @property
    def causes(self) -> tuple[Cause, ...]:
        """Reasons why no GPU is used; empty if one is."""
        return self.plan.causes

    @property
    def replicas(self) -> int:
        """Number of copies of the model that train in step; 1 without a strategy."""
        return 1 if self.strategy is None else int(self.strategy.num_replicas_in_sync)

    @property
    def is_chief(self) -> bool:
        """Whether this process writes shared files: False only for workers other than the chief.

        If a variable may differ between replicas, saving a model is a collective. Then let all
        workers save: the chief to the real path, the others to temporary paths.
        """
        return not is_multi_worker(self.strategy) or is_chief(self.strategy)

    @property
    def jit_compile(self) -> bool | str:
        """Value for `model.compile(jit_compile=…)` that applies the argument `jit` to the model."""
        asked = self.plan.value_of("jit")
        return "auto" if asked is None else bool(asked)

    def scope(self) -> AbstractContextManager[Any]:
        """Returns the context in which to build and compile the model.

        It is the scope of the strategy. Without a strategy, it does nothing.
        """
        if self.strategy is None:
            return nullcontext()
        scope: AbstractContextManager[Any] = self.strategy.scope()
        return scope

    def global_batch_size(self, per_replica: int) -> int:
        """Returns the batch size for the dataset, whose batches are divided among the replicas.

        Args:
            per_replica: Examples per replica in a step.

        Raises:
            TypeError: If `per_replica` is not an integer.
            ValueError: If `per_replica` is less than 1.
        """
        accepted = "an integer of at least 1"
        check("per_replica", per_replica, Integral, accepted, lambda v: v >= 1)
        return int(per_replica) * self.replicas

    def scaled_learning_rate(self, base: float) -> float:
        """Returns the learning rate for the global batch, by the linear scaling rule.

        The rule multiplies the rate that suits one replica's batch by the number of replicas. It
        needs a warm-up over the first epochs, which the callback `ScaledLearningRate` provides.
        The rule fails for very large batches. See Goyal et al. 2017, "Accurate, Large Minibatch
        SGD", https://arxiv.org/abs/1706.02677, section 2.

        Args:
            base: Learning rate that suits one replica's batch.

        Raises:
            TypeError: If `base` is not a number.
            ValueError: If `base` is not positive.
        """
        check("base", base, Real, "a positive number", lambda v: v > 0)
        return float(base) * self.replicas

    def input_advice(self, dataset: Any, model: Any = None) -> tuple[str, ...]:
        """Returns sentences on what to change in a dataset before the replicas train on it.

        It looks at how files and elements are divided among workers, at batches that cannot be
        divided among the replicas, and at batch normalization on each replica's few examples. The
        dataset is not read. Facts that its structure does not show lead to no advice.

        Args:
            dataset: A `tf.data.Dataset` of global batches.
            model: Model whose BatchNormalization layers are considered; None leaves them out.

        Raises:
            TypeError: If `dataset` is not a `tf.data.Dataset`.
        """
        cluster = cluster_of(self.strategy)
        workers = sum(len(cluster.get(role, ())) for role in ("chief", "worker")) or 1
        return advise(replica_input(dataset, replicas=self.replicas, workers=workers, model=model))

    def to_dict(self) -> dict[str, Any]:
        """Returns the setup as plain dicts, lists, strings and numbers, ready for JSON."""
        return {
            **self.plan.to_dict(),
            "devices": [to_dict(device) for device in self.devices],
            "warnings": list(self.warnings),
            "state": to_dict(self.state),
            "strategy": None if self.strategy is None else type(self.strategy).__name__,
            "replicas": self.replicas,
        }

    @property
    def printed(self) -> RenderableType:
        """Output of `configure_gpus`; in a cluster, only the chief's is complete."""
        if self.is_chief:
            return self.__rich__()
        resolver = self.strategy.cluster_resolver
        # The plan's warnings depend on the arguments, which are the same for all workers.
        own = tuple(warning for warning in self.warnings if warning not in self.plan.warnings)
        name = f"{resolver.task_type} {resolver.task_id}"
        return worker_lines(name, self.devices, causes=self.causes, warnings=own)

    def __rich__(self) -> RenderableType:
        return setup_panel(
            self.devices,
            self.state,
            actions=self.actions,
            causes=self.causes,
            not_applied=self.plan.not_applied,
            warnings=self.warnings,
            strategy=None if self.strategy is None else type(self.strategy).__name__,
            replicas=self.replicas,
            notes=self.plan.notes,
        )

    def _repr_html_(self) -> str:
        """Returns the setup as HTML for notebooks."""
        return as_html(self)

    def __str__(self) -> str:
        return as_text(self).rstrip()


def replica_input(
    dataset: Any, *, replicas: int, workers: int = 1, model: Any = None
) -> ReplicaInput:
    """Returns facts about the input of replicas; the dataset is not iterated."""
    import tensorflow as tf

    if not isinstance(dataset, tf.data.Dataset):
        raise TypeError(
            f"`dataset` must be a tf.data.Dataset. Received: dataset={type(dataset).__name__}"
        )
    batch, last, drops = _batching(dataset)
    return ReplicaInput(
        replicas=replicas,
        workers=workers,
        policy=dataset.options().experimental_distribute.auto_shard_policy.name,
        files=_files(dataset),
        batch=batch,
        last_batch=last,
        drops_remainder=drops,
        batch_norms=None if model is None else sum(map(_is_unsynchronized, layers_in(model))),
    )


def _batching(dataset: Any) -> tuple[int | None, int | None, bool]:
    """Returns the batch size, the last batch's size, and whether a partial batch is dropped.

    The sizes are None if they are unknown. The last batch is that of an epoch.
    """
    stage = _below_passing(dataset)
    if kind(stage) not in BATCHES:
        return None, None, False
    batch = number(stage, "batch_size")
    examples = int(inputs(stage)[0].cardinality())
    last = None if examples <= 0 else (examples % batch or batch)
    return batch, last, bool(setting(stage, "drop_remainder"))


def _files(dataset: Any) -> int | None:
    """Returns the number of files that are read; None if no reader is found or if it is unknown."""
    counts = [
        int(_below_passing(inputs(stage)[0]).cardinality())
        for stage in stages(dataset)
        if kind(stage) in _OPEN_FILES and _opens_files(stage)
    ]
    return sum(counts) if counts and min(counts) >= 0 else None


def _below_passing(dataset: Any) -> Any:
    """Returns the last stage that changes the size of what it passes on."""
    return next(stage for stage in stages(dataset) if kind(stage) not in _PASS_ON)


def _opens_files(stage: Any) -> bool:
    nodes = (node for function in functions(stage) for node in operations(function))
    return any(kind_of(node.op) in READERS for node in nodes)


def _is_unsynchronized(layer: Any) -> bool:
    import keras

    return isinstance(layer, keras.layers.BatchNormalization) and not layer.synchronized
