"""What a run was made of: versions, devices and the model's execution settings."""

from __future__ import annotations

from dataclasses import dataclass

_OF_ONE_PROCESS = ("MirroredStrategy", "OneDeviceStrategy", "CentralStorageStrategy")


@dataclass(frozen=True)
class GPUInfo:
    """One physical GPU, or one instance of a GPU in MIG mode, as the machine describes it.

    Attributes:
        index: Position among the GPUs that TensorFlow lists.
        name: Product name, such as "NVIDIA H200".
        uuid: "GPU-…", or "MIG-…" of an instance, as NVML gives it.
        memory_bytes: Physical memory.
        compute_capability: (major, minor).
        pci_bus_id: Where the GPU is, such as "00000000:65:00.0".
        logical: TensorFlow's logical GPUs on it, such as (0, 1) for "GPU:0" and "GPU:1"; None
            where unknown.
        unidentified_because: Why it is unknown which of the machine's GPUs it is.
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
        task_type: As in `TF_CONFIG`: "chief", "worker", "ps" or "evaluator".
        index: Its number among those that train, from 0, the chief first; None for one that does
            not train with them, such as an evaluator.
        count: How many train together.
    """

    task_type: str | None = None
    index: int | None = None
    count: int | None = None


def is_chief(worker: Worker | None) -> bool:
    """Whether a process speaks for all of its cluster: the only one, the first, or the coordinator.

    Args:
        worker: Which process of a cluster it is; None outside one.
    """
    return worker is None or not (worker.index or worker.task_type in ("ps", "evaluator"))


@dataclass(frozen=True)
class Environment:
    """Versions, devices and execution settings of one run.

    Attributes:
        versions: By package name ("keras", "tensorflow", "keras_gpukit", "python").
        gpus: The GPUs that TensorFlow can use; empty without any.
        cuda_build: Whether TensorFlow was built with CUDA.
        cpu_count: Cores this process may use.
        precision: Keras dtype policy of the model, such as "float32" or "mixed_bfloat16".
        jit_compile: Whether the training step is compiled with XLA.
        run_eagerly: Whether the training step runs without a graph.
        steps_per_execution: Steps in one call of the training function.
        strategy: Class name of the distribution strategy, where there is one.
        replicas: Replicas that train in step.
        tf32: Whether float32 matrix products may use TensorFloat-32.
        worker: Which process of a cluster it is; None outside one.
        trainable_bytes: Size of the trainable weights, and so of the gradients that replicas
            exchange in a step.
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

    @property
    def workers(self) -> int:
        """Processes that train together in step; 1 outside a cluster."""
        worker = self.worker
        is_alone = worker is None or worker.index is None or self.trains_alone
        return 1 if worker is None or is_alone else worker.count or 1

    @property
    def trains_alone(self) -> bool:
        """Whether it is one of several workers and has no strategy that connects them."""
        worker = self.worker
        is_one_of_several = worker is not None and worker.index is not None and worker.count != 1
        has_default = self.strategy is None and self.replicas == 1
        return is_one_of_several and (has_default or self.strategy in _OF_ONE_PROCESS)

    @property
    def is_chief(self) -> bool:
        """Whether this process speaks for all, see the function `is_chief`."""
        return is_chief(self.worker)
