"""GPUs that CUDA shows to this process, in CUDA's order."""

from __future__ import annotations

import ctypes
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# Enough for "0000:65:00.0" and its terminating zero.
_BUS_ID_BYTES = 32


@dataclass(frozen=True)
class CUDADevice:
    """One GPU, or one instance of a GPU in MIG mode, as CUDA identifies it.

    Attributes:
        uuid: UUID with its prefix: "GPU-…", or "MIG-…" if CUDA reports an instance.
        pci_bus_id: PCI bus id, such as "0000:65:00.0"; None if unknown.
    """

    uuid: str
    pci_bus_id: str | None = None


def cuda_devices(load: Callable[[str], Any] = ctypes.CDLL) -> tuple[CUDADevice, ...]:
    """Returns each GPU in CUDA's order, which is TensorFlow's; empty if unknown.

    CUDA_VISIBLE_DEVICES hides and reorders GPUs, and without it the fastest one comes first. So
    positions do not identify the same GPUs in NVML, but UUIDs do. Untested on a GPU.

    Call it only after TensorFlow has listed its devices: the first start of CUDA in a process
    determines which GPUs are visible.

    Args:
        load: Loads a shared library by name.
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
    whole = _octets(cuda, "cuDeviceGetUuid", device)
    own = _octets(cuda, "cuDeviceGetUuid_v2", device) or whole
    if own is None:
        return None
    kind = "GPU" if whole in (None, own) else "MIG"
    return f"{kind}-{uuid.UUID(bytes=own)}"


def _octets(cuda: Any, name: str, device: ctypes.c_int) -> bytes | None:
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
