"""The GPUs that TensorFlow uses in this process, and which of the machine's each of them is."""

from __future__ import annotations

import ctypes
import sys
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from keras_gpukit.frameworks import tf_runtime
from keras_gpukit.records.environment import GPUInfo
from keras_gpukit.records.installation import Driver, DriverGPU, MIGInstance
from keras_gpukit.sensors.driver import read_driver

# Enough for "0000:65:00.0" and its terminating zero.
_BUS_ID_BYTES = 32


def visible_gpus() -> tuple[GPUInfo, ...]:
    """Returns each visible GPU in TensorFlow's order, without starting TensorFlow's devices."""
    import tensorflow as tf

    visible = visible_devices()
    if not visible:
        return ()
    physical = tf.config.list_physical_devices("GPU")
    listed = listed_gpus(read_driver())
    return tuple(
        replace(listed[physical.index(device)], index=index, logical=logical)
        for index, (device, logical) in enumerate(zip(visible, logical_gpus(visible), strict=True))
    )


def visible_devices() -> list[Any]:
    """Returns TensorFlow's visible physical GPUs in the order in which it numbers them.

    `tf.config.get_visible_devices` repeats the order of `set_visible_devices`, which TensorFlow
    ignores: the lower physical number always comes first.
    """
    import tensorflow as tf

    visible = tf.config.get_visible_devices("GPU")
    return [device for device in tf.config.list_physical_devices("GPU") if device in visible]


def logical_gpus(visible: Sequence[Any]) -> list[tuple[int, ...] | None]:
    """Returns the numbers of the logical GPUs on each physical one; None if unknown."""
    import tensorflow as tf

    numbers: list[tuple[int, ...] | None] = []
    count = 0
    for device in visible:
        parts = tf.config.get_logical_device_configuration(device) or [None]
        # If the caller sets ordinals, the numbers mix the parts of different GPUs.
        if any(getattr(part, "experimental_device_ordinal", None) is not None for part in parts):
            return [None] * len(visible)
        numbers.append(tuple(range(count, count + len(parts))))
        count += len(parts)
    # TensorFlow drops GPUs that it considers too weak, but only when it starts its devices.
    if tf_runtime.is_initialized() and len(tf.config.list_logical_devices("GPU")) != count:
        return [None] * len(visible)
    return numbers


def listed_gpus(driver: Driver) -> tuple[GPUInfo, ...]:
    """Returns each GPU that TensorFlow lists, hidden ones included."""
    import tensorflow as tf

    physical = tf.config.list_physical_devices("GPU")
    gpus = tuple(_describe(index, device) for index, device in enumerate(physical))
    return identify(gpus, driver, cuda_devices()) if gpus else ()


def _describe(index: int, device: Any) -> GPUInfo:
    """Returns what TensorFlow reports about a physical device."""
    import tensorflow as tf

    try:
        details = tf.config.experimental.get_device_details(device)
    except Exception:  # a device that TensorFlow lists but cannot describe
        details = {}
    return GPUInfo(
        index=index,
        name=details.get("device_name"),
        compute_capability=details.get("compute_capability"),
    )


@dataclass(frozen=True)
class CUDADevice:
    """One GPU, or one instance of a GPU in MIG mode, as CUDA identifies it.

    The UUID is "GPU-…", or "MIG-…" if CUDA reports an instance. A bus id is like "0000:65:00.0".
    """

    uuid: str
    pci_bus_id: str | None = None


def cuda_devices(load: Callable[[str], Any] = ctypes.CDLL) -> tuple[CUDADevice, ...]:
    """Returns each GPU in CUDA's order, which is TensorFlow's; empty if unknown.

    CUDA_VISIBLE_DEVICES hides and reorders GPUs, and without it the fastest one comes first. So
    positions do not identify the same GPUs in NVML, but UUIDs do.

    Call it only after TensorFlow has listed its devices: the first start of CUDA in a process
    determines which GPUs are visible.
    """
    try:
        cuda = load("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return ()
    count = ctypes.c_int()
    if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)):
        return ()
    devices = []
    for ordinal in range(count.value):
        device = ctypes.c_int()
        if cuda.cuDeviceGet(ctypes.byref(device), ordinal):
            return ()
        found = _uuid(cuda, device)
        if found is None:
            return ()
        devices.append(CUDADevice(found, _bus_id(cuda, device)))
    return tuple(devices)


def _uuid(cuda: Any, device: ctypes.c_int) -> str | None:
    """Returns a device's UUID, prefixed with "GPU-" or "MIG-"; None if unknown.

    For an instance of a GPU in MIG mode, the first version of `cuDeviceGetUuid` returns its GPU's
    UUID, and the second version its own.
    https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__DEVICE.html
    """
    whole = _uuid_bytes(cuda, "cuDeviceGetUuid", device)
    own = _uuid_bytes(cuda, "cuDeviceGetUuid_v2", device) or whole
    if own is None:
        return None
    kind = "GPU" if whole in (None, own) else "MIG"
    return f"{kind}-{uuid.UUID(bytes=own)}"


def _uuid_bytes(cuda: Any, name: str, device: ctypes.c_int) -> bytes | None:
    ask = getattr(cuda, name, None)  # drivers before CUDA 11.4 have no second version
    octets = (ctypes.c_ubyte * 16)()
    if ask is None or ask(ctypes.byref(octets), device):
        return None
    return bytes(octets)


def _bus_id(cuda: Any, device: ctypes.c_int) -> str | None:
    text = ctypes.create_string_buffer(_BUS_ID_BYTES)
    if cuda.cuDeviceGetPCIBusId(text, _BUS_ID_BYTES, device):
        return None
    return text.value.decode()


def identify(
    gpus: tuple[GPUInfo, ...], driver: Driver, cuda: tuple[CUDADevice, ...]
) -> tuple[GPUInfo, ...]:
    """Adds the driver's information to the GPUs that TensorFlow lists.

    CUDA reports the UUID and the PCI bus id of each GPU in TensorFlow's order. If it is unknown
    which of the driver's GPUs they are, each contains the reason.
    """
    if len(cuda) != len(gpus):
        because = f"TensorFlow lists {len(gpus)} GPUs and CUDA lists {len(cuda)}"
        return tuple(replace(gpu, unidentified_because=because) for gpu in gpus)
    return tuple(_described(*pair, driver.gpus) for pair in zip(gpus, cuda, strict=True))


def _described(gpu: GPUInfo, device: CUDADevice, known: tuple[DriverGPU, ...]) -> GPUInfo:
    for whole in known:
        if (match := _match(device, whole)) is not None:
            return replace(
                gpu,
                uuid=match.uuid,
                name=gpu.name or match.name,
                memory_bytes=match.memory_bytes,
                compute_capability=gpu.compute_capability or whole.compute_capability,
                pci_bus_id=whole.pci_bus_id,
            )
    # NVML does not describe it, or does not answer.
    return replace(gpu, uuid=device.uuid, pci_bus_id=device.pci_bus_id)


def _match(device: CUDADevice, whole: DriverGPU) -> DriverGPU | MIGInstance | None:
    """Returns the GPU or the instance of it that is CUDA's device; None if neither is."""
    known: list[DriverGPU | MIGInstance] = [whole, *(whole.mig or ())]
    for candidate in known:
        if candidate.uuid is not None and _octets(candidate.uuid) == _octets(device.uuid):
            return candidate
    # Some virtual GPUs have another UUID in CUDA; a GPU in MIG mode is never listed as a whole.
    is_it = whole.uuid and not whole.mig and same_bus(device.pci_bus_id, whole.pci_bus_id)
    return whole if is_it else None


def same_bus(one: str | None, other: str | None) -> bool:
    """Whether two PCI bus ids are equal: "0000:65:00.0" in CUDA is "00000000:65:00.0" in NVML.

    An unknown id (None) equals no other.
    """
    return one is not None and other is not None and _place(one) == _place(other)


def _place(bus_id: str) -> tuple[int, str]:
    domain, _, rest = bus_id.lower().partition(":")
    return int(domain, 16), rest


def _octets(uuid: str) -> str:
    """Returns a UUID without the prefix for the kind of GPU, on which drivers disagree."""
    return uuid.lower().removeprefix("gpu-").removeprefix("mig-")
