"""The NVIDIA driver and the GPUs it sees, through NVML.

Only a machine with a GPU reaches most of this: it is tested against a stand-in for NVML.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from keras_gpukit.records.environment import GPUInfo


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
    """

    index: int
    name: str | None = None
    uuid: str | None = None
    memory_bytes: int | None = None
    compute_capability: tuple[int, int] | None = None
    pci_bus_id: str | None = None


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


def read_driver(nvml: Any = None) -> Driver:
    """Asks NVML for the driver and its GPUs; never raises.

    Args:
        nvml: The `pynvml` module, or a stand-in.
    """
    module = os.path.exists("/proc/driver/nvidia/version") if sys.platform == "linux" else None
    nvml = nvml or import_module("pynvml")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return Driver(error=type(error).__name__.removeprefix("NVMLError_"), kernel_module=module)
    try:
        cuda = nvml.nvmlSystemGetCudaDriverVersion()
        return Driver(
            version=_text(nvml.nvmlSystemGetDriverVersion()),
            cuda_version=(cuda // 1000, cuda % 1000 // 10),
            gpus=tuple(_describe(nvml, index) for index in range(nvml.nvmlDeviceGetCount())),
            kernel_module=module,
        )
    except nvml.NVMLError as error:
        return Driver(error=type(error).__name__.removeprefix("NVMLError_"), kernel_module=module)
    finally:
        nvml.nvmlShutdown()


def identify(
    gpus: tuple[GPUInfo, ...], driver: Driver, uuids: tuple[str, ...]
) -> tuple[GPUInfo, ...]:
    """Adds to the GPUs that TensorFlow lists what the driver knows of them.

    Args:
        gpus: In TensorFlow's order.
        driver: What NVML says.
        uuids: What `sensors.cuda.cuda_uuids` returned.

    Returns:
        The GPUs; as they came where it is unknown which of the driver's each one is.
    """
    if not uuids and len(gpus) == len(driver.gpus) == 1 and driver.gpus[0].uuid:
        uuids = (driver.gpus[0].uuid,)
    if len(uuids) != len(gpus):
        return gpus
    by_uuid = {gpu.uuid: gpu for gpu in driver.gpus}
    known = []
    for gpu, uuid in zip(gpus, uuids, strict=True):
        found = by_uuid.get(uuid, DriverGPU(gpu.index))
        known.append(
            replace(
                gpu,
                uuid=uuid,
                name=gpu.name or found.name,
                memory_bytes=found.memory_bytes,
                compute_capability=gpu.compute_capability or found.compute_capability,
            )
        )
    return tuple(known)


def _describe(nvml: Any, index: int) -> DriverGPU:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)

    def ask(question: str) -> Any:
        # Not every GPU answers everything: one that shares the host's memory has none of its own.
        try:
            return getattr(nvml, question)(handle)
        except nvml.NVMLError:
            return None

    memory = ask("nvmlDeviceGetMemoryInfo")
    capability = ask("nvmlDeviceGetCudaComputeCapability")
    bus = ask("nvmlDeviceGetPciInfo")
    return DriverGPU(
        index=index,
        name=_text(ask("nvmlDeviceGetName")),
        uuid=_text(ask("nvmlDeviceGetUUID")),
        memory_bytes=None if memory is None else memory.total,
        compute_capability=None if capability is None else tuple(capability),
        pci_bus_id=None if bus is None else _text(bus.busId),
    )


def _text(value: str | bytes | None) -> str | None:
    # Older bindings give bytes.
    return value.decode() if isinstance(value, bytes) else value
