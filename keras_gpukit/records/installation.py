"""What a machine has for training on GPUs: driver, libraries, TensorFlow's build and settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from keras_gpukit.records.cluster import Cluster
from keras_gpukit.records.environment import GPUInfo


@dataclass(frozen=True)
class MIGInstance:
    """One part of a GPU in MIG (Multi-Instance GPU) mode, which CUDA lists as a GPU.

    Attributes:
        uuid: "MIG-…".
        gpu_instance: Number of its GPU instance.
        compute_instance: Number of its compute instance within that.
        name: Product name with the profile, such as "NVIDIA A100-SXM4-40GB MIG 3g.20gb".
        memory_bytes: Its own memory.
    """

    uuid: str | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None
    name: str | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True)
class DriverGPU:
    """One GPU as NVML describes it.

    Attributes:
        index: Position in NVML's order, which is that of the PCI bus.
        name: Product name.
        uuid: "GPU-…".
        memory_bytes: Physical memory.
        compute_capability: (major, minor).
        pci_bus_id: Such as "00000000:65:00.0".
        mig: The instances that it is divided into; None where it is not in MIG mode.
        error: NVML's name for why it does not answer, such as "GpuIsLost".
    """

    index: int
    name: str | None = None
    uuid: str | None = None
    memory_bytes: int | None = None
    compute_capability: tuple[int, int] | None = None
    pci_bus_id: str | None = None
    mig: tuple[MIGInstance, ...] | None = None
    error: str | None = None


@dataclass(frozen=True)
class Driver:
    """The NVIDIA driver.

    Attributes:
        version: Such as "560.35.03"; None where it does not answer.
        cuda_version: Newest CUDA (major, minor) it can run.
        gpus: Every GPU of the machine, hidden ones included.
        error: NVML's name for why it does not answer, such as "LibraryNotFound".
        kernel_module: Whether the kernel has the driver loaded, even where it does not answer:
            so it is in a container that was not given the GPUs.
    """

    version: str | None = None
    cuda_version: tuple[int, int] | None = None
    gpus: tuple[DriverGPU, ...] = ()
    error: str | None = None
    kernel_module: bool | None = None

    def position_of(self, uuid: str | None) -> int | None:
        """Returns the position of the GPU that has this UUID, or an instance with it."""
        for gpu in self.gpus:
            if uuid is not None and uuid in (gpu.uuid, *(part.uuid for part in gpu.mig or ())):
                return gpu.index
        return None


@dataclass(frozen=True)
class CUDALibrary:
    """One library.

    Attributes:
        name: File name with its version, such as "libcudart.so.12".
        path: Where it is, "system" where the loader knows it; None where it is missing.
        source: What led to it: "LD_LIBRARY_PATH", "pip" or "system".
        version: As the library itself reports it, where it was loaded and does.
        error: What the loader says where it is missing, or cannot be loaded.
    """

    name: str
    path: str | None = None
    source: str | None = None
    version: str | None = None
    error: str | None = None


@dataclass(frozen=True)
class TensorFlowState:
    """What TensorFlow and Keras are set to now.

    Placement, its log and `jit` are None while growth was set to differ between GPUs: TensorFlow
    reports none of them until that is fixed.

    Attributes:
        visible_gpus: Indices of the GPUs that TensorFlow will use.
        growth: Whether each listed GPU's memory grows; None where never set.
        memory_limit_mib: Sizes of each listed GPU's logical GPUs, in MiB; None where it is not
            split.
        logical_cpus: Logical CPU devices.
        soft_placement: Whether operations fall back to a device that has a kernel.
        log_device_placement: Whether each operation's device is logged.
        jit: Whether XLA clusters operations by itself.
        tf32: Whether float32 matrix products may use TensorFloat-32.
        deterministic: Whether operations are made deterministic; None where unknown.
        dtype_policy: Name of Keras' global dtype policy.
        initialized: Whether the devices are started, so that most of this is settled.
        logical_gpus: Logical GPUs that TensorFlow started; None before it starts its devices.
        growth_dropped: Whether growth was set and TensorFlow will not do it all the same; None
            where unknown.
    """

    visible_gpus: tuple[int, ...] = ()
    growth: tuple[bool | None, ...] = ()
    memory_limit_mib: tuple[tuple[int, ...] | None, ...] = ()
    logical_cpus: int = 1
    soft_placement: bool | None = True
    log_device_placement: bool | None = False
    jit: bool | None = False
    tf32: bool = True
    deterministic: bool | None = False
    dtype_policy: str = "float32"
    initialized: bool = False
    logical_gpus: int | None = None
    growth_dropped: bool | None = False


@dataclass(frozen=True)
class Build:
    """How TensorFlow was built.

    Attributes:
        cuda: Whether with CUDA; None where unknown.
        cuda_version: Such as "12.5.1".
        cudnn_version: Such as "9".
        compute_capabilities: Those it has code for, such as ("sm_60", "compute_90").
    """

    cuda: bool | None = None
    cuda_version: str | None = None
    cudnn_version: str | None = None
    compute_capabilities: tuple[str, ...] = ()


@dataclass(frozen=True)
class Machine:
    """All facts a plan needs.

    Attributes:
        gpus: Every GPU that TensorFlow lists, in its order.
        state: TensorFlow's settings.
        build: TensorFlow's build.
        driver: NVIDIA's driver.
        libraries: The CUDA libraries that TensorFlow needs.
        environment: The environment variables that bear on GPUs and are set.
        platform: As `sys.platform`.
        keras_backend: Name of Keras' backend.
        mirrored_devices: Those of this process' `MirroredStrategy`; None before the first.
        cluster: The processes that train together; None outside a cluster, or where a strategy
            over one is not asked for.
        cluster_strategy: Name of this process' strategy over its cluster; None before it is made.
    """

    gpus: tuple[GPUInfo, ...] = ()
    state: TensorFlowState = field(default_factory=TensorFlowState)
    build: Build = field(default_factory=Build)
    driver: Driver = field(default_factory=Driver)
    libraries: tuple[CUDALibrary, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    platform: str = "linux"
    keras_backend: str = "tensorflow"
    mirrored_devices: tuple[str, ...] | None = None
    cluster: Cluster | None = None
    cluster_strategy: str | None = None
