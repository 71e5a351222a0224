"""CUDA in this process: the GPUs that it shows, and the libraries that TensorFlow loads."""

from __future__ import annotations

import ctypes
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keras_gpukit.records.installation import CUDALibrary

# What a TensorFlow built for each CUDA release opens; without one of these it uses no GPU. The
# numbers are the libraries' own (soname), which are not those of CUDA:
# https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/ lists each release's component versions.
_BY_CUDA_MAJOR = {
    11: (
        "libcudart.so.11.0",
        "libcublas.so.11",
        "libcublasLt.so.11",
        "libcufft.so.10",
        "libcusolver.so.11",
        "libcusparse.so.11",
    ),
    12: (
        "libcudart.so.12",
        "libcublas.so.12",
        "libcublasLt.so.12",
        "libcufft.so.11",
        "libcusolver.so.11",
        "libcusparse.so.12",
    ),
    13: (
        "libcudart.so.13",
        "libcublas.so.13",
        "libcublasLt.so.13",
        "libcufft.so.12",
        "libcusolver.so.12",
        "libcusparse.so.12",
    ),
}


def cuda_uuids(load: Callable[[str], Any] = ctypes.CDLL) -> tuple[str, ...]:
    """Returns the UUID of each GPU in CUDA's order, which is TensorFlow's; empty where unknown.

    CUDA_VISIBLE_DEVICES hides and reorders GPUs, and without it the fastest comes first, so their
    positions say nothing about the same GPUs in NVML: their UUIDs do.

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


def needed_libraries(cuda_version: str | None, cudnn_version: str | None) -> tuple[str, ...]:
    """Returns the libraries that a TensorFlow of this build opens; empty where unknown.

    Args:
        cuda_version: As in `tf.sysconfig.get_build_info()`, such as "12.5.1".
        cudnn_version: The same of cuDNN, such as "9".
    """
    names = _BY_CUDA_MAJOR.get(_major(cuda_version), ())
    cudnn = _major(cudnn_version)
    return (*names, f"libcudnn.so.{cudnn}") if names and cudnn else names


def find_libraries(
    names: tuple[str, ...],
    search_path: list[str] | None = None,
    load: Callable[[str], Any] = ctypes.CDLL,
) -> tuple[CUDALibrary, ...]:
    """Looks for each library as TensorFlow does: in NVIDIA's pip packages, then in the system.

    Args:
        names: File names.
        search_path: Folders that packages are installed in; None means `sys.path`.
        load: Loads a shared library by name, raises OSError if it is missing.
    """
    folders = [Path(entry) / "nvidia" for entry in search_path or sys.path]
    return tuple(CUDALibrary(name, _find(name, folders, load)) for name in names)


def _find(name: str, folders: list[Path], load: Callable[[str], Any]) -> str | None:
    for folder in folders:
        for path in folder.glob(f"*/lib/{name}"):
            return str(path)
    try:
        load(name)
    except OSError:
        return None
    return "system"


def _major(version: str | None) -> int:
    text = (version or "").split(".")[0]
    return int(text) if text.isdigit() else 0
