"""Environment of a run: versions, devices and the model's execution settings."""

from __future__ import annotations

from dataclasses import dataclass, field

RUN_FUNCTIONS_EAGERLY = "tf.config.run_functions_eagerly(True)"
_OF_ONE_PROCESS = ("MirroredStrategy", "OneDeviceStrategy", "CentralStorageStrategy")


@dataclass(frozen=True)
class GPUInfo:
    """One physical GPU, or one instance of a GPU in MIG mode, as the machine describes it.

    Attributes:
        index: Position among the GPUs that TensorFlow lists.
        uuid: UUID as NVML reports it: "GPU-…", or "MIG-…" for an instance.
        logical: Numbers of TensorFlow's logical GPUs on it, such as (0, 1) for "GPU:0" and "GPU:1".
    """

    index: int
    name: str | None = None
    uuid: str | None = None
    memory_bytes: int | None = None
    compute_capability: tuple[int, int] | None = None
    pci_bus_id: str | None = None
    logical: tuple[int, ...] | None = None
    unidentified_because: str | None = None


@dataclass(frozen=True)
class Worker:
    """One process of a cluster that trains together. Unknown fields are None.

    Attributes:
        task_type: Task type as in `TF_CONFIG`: "chief", "worker", "ps" or "evaluator".
        index: Index among the processes that train, from 0, the chief first; None for a process
            that does not train with them, such as an evaluator.
    """

    task_type: str | None = None
    index: int | None = None
    count: int | None = None


def is_chief(worker: Worker | None) -> bool:
    """Whether a process reports for its whole cluster: the only one, first one or coordinator."""
    return worker is None or not (worker.index or worker.task_type in ("ps", "evaluator"))


@dataclass(frozen=True)
class Padding:
    """How many of the numbers that each example has are no zeros at one end.

    Attributes:
        width: Numbers that each example has.
        mean: Mean length of the examples without these zeros.
        most: Length that 99 % of the examples do not exceed.
    """

    width: int
    mean: float
    most: int


@dataclass(frozen=True)
class FrozenLayers:
    """The first layers of a model, up to one that is trained or draws at random.

    Attributes:
        names: Names of the outermost layers, from the input on.
        gets_arrays: Whether `fit` got arrays, which are the same in each epoch.
    """

    names: tuple[str, ...]
    gets_arrays: bool


@dataclass(frozen=True)
class Environment:
    """Versions, devices and execution settings of one run.

    Attributes:
        versions: Versions by package name ("keras", "tensorflow", "keras_gpukit", "python").
        cpu_count: Number of cores that this process may use.
        precision: Keras dtype policy of the model, such as "float32" or "mixed_bfloat16".
        trainable_bytes: Size of the trainable weights. The gradients that replicas exchange in each
            step have the same size.
        settings: Settings in effect that can slow a run, by their key in
            `keras_gpukit.rules.setup.slowing_settings`, each as the user writes it.
        padding: None unless a model with an embedding gets whole numbers as an array.
        frozen: None unless a model's first layers have weights, none of which is trained.
    """

    versions: dict[str, str]
    gpus: tuple[GPUInfo, ...] = ()
    cuda_build: bool | None = None
    cpu_count: int | None = None
    precision: str | None = None
    jit_compile: bool | None = None
    run_eagerly: bool | None = None
    steps_per_execution: int | None = None
    strategy: str | None = None
    replicas: int | None = None
    tf32: bool | None = None
    worker: Worker | None = None
    trainable_bytes: int | None = None
    settings: dict[str, str] = field(default_factory=dict)
    preprocessing: tuple[str, ...] = ()
    padding: Padding | None = None
    frozen: FrozenLayers | None = None

    @property
    def runs_eagerly(self) -> bool:
        """Whether Python starts each operation of a step."""
        return bool(self.run_eagerly) or RUN_FUNCTIONS_EAGERLY in self.settings

    @property
    def workers(self) -> int:
        """Number of processes that train together in step; 1 outside a cluster."""
        worker = self.worker
        is_alone = worker is None or worker.index is None or self.trains_alone
        return 1 if worker is None or is_alone else worker.count or 1

    @property
    def trains_alone(self) -> bool:
        """Whether this process is one of several workers but has no strategy that connects them."""
        worker = self.worker
        is_one_of_several = worker is not None and worker.index is not None and worker.count != 1
        has_default = self.strategy is None and self.replicas == 1
        return is_one_of_several and (has_default or self.strategy in _OF_ONE_PROCESS)

    @property
    def is_chief(self) -> bool:
        """Whether this process reports for its whole cluster; see the function `is_chief`."""
        return is_chief(self.worker)
