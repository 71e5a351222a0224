"""Which GPUs CUDA sees in this process, in its own order, which is TensorFlow's.

CUDA_VISIBLE_DEVICES hides and reorders GPUs, and without it the fastest comes first, so their
positions say nothing about the same GPUs in NVML: their UUIDs do.
"""

from __future__ import annotations

import ctypes
import sys
import uuid
from collections.abc import Callable
from typing import Any


def cuda_uuids(load: Callable[[str], Any] = ctypes.CDLL) -> tuple[str, ...]:
    """Returns the UUID of each GPU; empty where CUDA does not tell.

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
    uuids = []
    for ordinal in range(count.value):
        device, octets = ctypes.c_int(), (ctypes.c_ubyte * 16)()
        if cuda.cuDeviceGet(ctypes.byref(device), ordinal):
            return ()
        if cuda.cuDeviceGetUuid(ctypes.byref(octets), device):
            return ()
        uuids.append(f"GPU-{uuid.UUID(bytes=bytes(octets))}")
    return tuple(uuids)
