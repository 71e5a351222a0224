"""Installation for training on GPUs, each GPU's health, and what `configure_gpus` sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from keras_gpukit.records.cluster import Cluster
from keras_gpukit.records.environment import GPUInfo
from keras_gpukit.records.memory import GPUHolder


@dataclass(frozen=True)
class MIGInstance:
    """One instance of a GPU in MIG (Multi-Instance GPU) mode, which CUDA lists as a GPU.

    Attributes:
        name: Product name with the profile, such as "NVIDIA A100-SXM4-40GB MIG 3g.20gb".
    """

    uuid: str | None = None
    name: str | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True)
class DriverGPU:
    """One GPU, as NVML describes it.

    Attributes:
        index: Position in NVML's order, which is the order of the PCI bus.
        mig: Instances that the GPU is divided into; None if it is not in MIG mode.
        error: NVML's name for the error of a GPU that does not answer, such as "GpuIsLost".
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
        kernel_module: Whether the kernel has loaded the driver. In a container without access to
            the GPUs it has, and the driver does not answer.
    """

    version: str | None = None
    cuda_version: tuple[int, int] | None = None
    gpus: tuple[DriverGPU, ...] = ()
    error: str | None = None
    kernel_module: bool | None = None

    def position_of(self, uuid: str | None) -> int | None:
        """Returns the index of the GPU with this UUID or an instance of it; None without one."""
        for gpu in self.gpus:
            if uuid is not None and uuid in (gpu.uuid, *(part.uuid for part in gpu.mig or ())):
                return gpu.index
        return None


@dataclass(frozen=True)
class CUDALibrary:
    """One CUDA library that TensorFlow loads.

    Attributes:
        name: File name with the library's version, such as "libcudart.so.12".
        path: Path of the file; "system" if the loader finds it by its name; None if it is missing.
    """

    name: str
    path: str | None = None
    source: str | None = None
    version: str | None = None
    error: str | None = None


@dataclass(frozen=True)
class TensorFlowState:
    """Current settings of TensorFlow and Keras.

    `soft_placement`, `log_device_placement` and `jit` are None while memory growth is set to differ
    between GPUs. TensorFlow reports none of them until that is fixed.

    Attributes:
        growth: Whether memory growth is enabled, for each listed GPU; None where it was never set.
        memory_limit_mib: Sizes of the logical GPUs on each listed GPU, in MiB; None where a GPU is
            not split.
        initialized: Whether TensorFlow has started its devices, which fixes most of these settings.
        logical_gpus: Number of logical GPUs that TensorFlow started; None before it starts its
            devices.
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
        compute_capabilities: Compute capabilities that the build has code for, such as ("sm_60",
            "compute_90").
    """

    cuda: bool | None = None
    cuda_version: str | None = None
    cudnn_version: str | None = None
    compute_capabilities: tuple[str, ...] = ()


@dataclass(frozen=True)
class Machine:
    """All facts that a plan needs.

    Attributes:
        mirrored_devices: Devices of this process's `MirroredStrategy`; None before the first one is
            made.
        cluster: Processes that train together; None outside a cluster, or if no strategy over one
            is requested.
        cluster_strategy: Name of this process's strategy over its cluster; None before it is made.
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


@dataclass(frozen=True)
class MissingNames:
    """A measurement that this TensorFlow or Keras does not allow.

    Attributes:
        measurement: The measurement, such as "input stall per stage".
        names: Private names that it needs and that are missing, each as "module:Class.attribute".
            Empty if all are there, and it found nothing in a trial.
    """

    measurement: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Xid:
    """One GPU error in the kernel's log. NVIDIA numbers the kinds of errors."""

    code: int
    pci_bus_id: str
    text: str


RecoveryAction = Literal[
    "none",
    "reset_gpu",
    "restart_machine",
    "end_peer_traffic",
    "end_processes_and_reset_gpu",
    "recover_imex",
    "reset_bus",
]
"""Action that NVML requests after an error."""


@dataclass(frozen=True)
class GPUHealth:
    """State of one GPU, from NVML and the kernel's log. Fields that neither reports are None.

    Attributes:
        processes: Other processes with memory on the GPU, the largest first. In a container with
            process IDs of its own, this process may be among them.
        ecc_uncorrected: Uncorrected memory errors since the driver was loaded.
    """

    index: int
    compute_mode: str | None = None
    memory_used_bytes: int | None = None
    processes: tuple[GPUHolder, ...] | None = None
    ecc_uncorrected: int | None = None
    remapping_pending: bool | None = None
    remapping_failed: bool | None = None
    recovery_action: RecoveryAction | None = None
    xids: tuple[Xid, ...] | None = None


@dataclass(frozen=True)
class CUDAPackage:
    """One of NVIDIA's pip packages that TensorFlow can use.

    Attributes:
        needs: Versions that TensorFlow's extra `and-cuda` requires, such as ">=9.3,<10".
    """

    name: str
    needs: str
    installed: str | None = None
    fits: bool | None = None

    @property
    def lowest(self) -> str | None:
        """Lowest version that meets `needs`; None if `needs` has no lower bound."""
        bounds = (bound.strip() for bound in self.needs.split(","))
        return next((bound[2:] for bound in bounds if bound[:2] in (">=", "==")), None)


@dataclass(frozen=True)
class Problem:
    """One problem that blocks a GPU or puts it at risk.

    Attributes:
        gpu: Position of the GPU in NVML's order; None if the problem concerns all GPUs.
    """

    code: str
    text: str
    advice: str
    gpu: int | None = None
    blocks: bool = False

    def __str__(self) -> str:
        return f"{self.text} {self.advice}"


@dataclass(frozen=True)
class Action:
    """One setting to apply.

    Attributes:
        gpus: Indices of the GPUs concerned; empty for all.
        name: Name of the environment variable; None for other settings.
        must_come_first: Whether TensorFlow refuses or ignores the setting once its devices are
            started.
    """

    kind: str
    value: Any
    reason: str
    gpus: tuple[int, ...] = ()
    name: str | None = None
    must_come_first: bool = False

    def __str__(self) -> str:
        target = self.name or self.kind
        where = f" of GPU {', '.join(map(str, self.gpus))}" if self.gpus else ""
        return f"{target}{where} = {self.shown}"

    @property
    def shown(self) -> Any:
        """Value to display. A strategy that the user gave is shown by the name of its class."""
        return type(self.value).__name__ if self.kind == "given_strategy" else self.value

    def to_dict(self) -> dict[str, Any]:
        """Returns the action as plain data."""
        # Imported here: checking settings must not load msgspec, since a script may notice it.
        from keras_gpukit.records.codec import to_dict

        return to_dict(replace(self, value=self.shown))


@dataclass(frozen=True)
class Cause:
    """One reason why no GPU is used.

    Attributes:
        code: Stable name, such as "no_driver".
        advice: Recommended action; empty if nothing is wrong.
    """

    code: str
    text: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.text} {self.advice}".strip()
