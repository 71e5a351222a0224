"""CUDA in this process: which GPUs it shows, in its own order."""

from __future__ import annotations

import ctypes
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# "0000:65:00.0" and its end, with room to spare.
_BUS_ID_BYTES = 32


@dataclass(frozen=True)
class CUDADevice:
    """One GPU, or one instance of a GPU in MIG mode, as CUDA identifies it.

    Attributes:
        uuid: "GPU-…", or "MIG-…" where CUDA reports that it is an instance.
        pci_bus_id: Such as "0000:65:00.0".
    """

    uuid: str
    pci_bus_id: str | None = None


def cuda_devices(load: Callable[[str], Any] = ctypes.CDLL) -> tuple[CUDADevice, ...]:
    """Returns each GPU in CUDA's order, which is TensorFlow's; empty where unknown.

    CUDA_VISIBLE_DEVICES hides and reorders GPUs, and without it the fastest comes first, so their
    positions say nothing about the same GPUs in NVML: their UUIDs do. Untested on a GPU.

    Call it only after TensorFlow listed its devices: the first start of CUDA in a process settles
    which GPUs are visible.

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
    """Of an instance in MIG mode the first version answers with its GPU's UUID, the second its own.

    https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__DEVICE.html
    """
    whole = _octets(cuda, "cuDeviceGetUuid", device)
    own = _octets(cuda, "cuDeviceGetUuid_v2", device) or whole
    if own is None:
        return None
    kind = "GPU" if whole in (None, own) else "MIG"
    return f"{kind}-{uuid.UUID(bytes=own)}"


def _octets(cuda: Any, name: str, device: ctypes.c_int) -> bytes | None:
    ask = getattr(cuda, name, None)  # a driver of before CUDA 11.4 has no second version
    octets = (ctypes.c_ubyte * 16)()
    if ask is None or ask(ctypes.byref(octets), device):
        return None
    return bytes(octets)


def _bus_id(cuda: Any, device: ctypes.c_int) -> str | None:
    text = ctypes.create_string_buffer(_BUS_ID_BYTES)
    if cuda.cuDeviceGetPCIBusId(text, _BUS_ID_BYTES, device):
        return None
    return text.value.decode()
