"""The CUDA libraries that TensorFlow loads when it looks for a GPU: which are here, which not."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


@dataclass(frozen=True)
class CUDALibrary:
    """One library.

    Attributes:
        name: File name with its version, such as "libcudart.so.12".
        path: Where it is, "system" where the loader knows it; None where it is missing.
    """

    name: str
    path: str | None = None


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
