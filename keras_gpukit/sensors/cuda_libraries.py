"""The CUDA libraries that TensorFlow loads."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keras_gpukit.records.installation import CUDALibrary

# Libraries that TensorFlow opens, by the CUDA release it was built for. If one of them is missing,
# it uses no GPU. The numbers are the libraries' own (soname), which differ from CUDA's:
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


def needed_libraries(cuda_version: str | None, cudnn_version: str | None) -> tuple[str, ...]:
    """Returns the libraries that TensorFlow opens if built for these versions; empty if unknown.

    Args:
        cuda_version: CUDA version in `tf.sysconfig.get_build_info()`, such as "12.5.1".
        cudnn_version: cuDNN version in `tf.sysconfig.get_build_info()`, such as "9".
    """
    names = _BY_CUDA_MAJOR.get(_major(cuda_version), ())
    cudnn = _major(cudnn_version)
    return (*names, f"libcudnn.so.{cudnn}") if names and cudnn else names


def find_libraries(
    names: tuple[str, ...],
    search_path: list[str] | None = None,
    load: Callable[[str], Any] = ctypes.CDLL,
    first: str | None = None,
) -> tuple[CUDALibrary, ...]:
    """Looks for each library in the places where the loader looks for TensorFlow 2.21.

    TensorFlow's own libraries name the folders of NVIDIA's pip packages as RUNPATH. The loader
    searches these after LD_LIBRARY_PATH and before the system's folders: see `man ld.so`.

    Args:
        names: File names of the libraries.
        search_path: Folders that packages are installed in; None means `sys.path`.
        load: Loads a shared library by name; raises OSError if it is missing.
        first: Folders to search first, in the format of LD_LIBRARY_PATH; None means its value.
    """
    before = os.environ.get("LD_LIBRARY_PATH", "") if first is None else first
    folders = [Path(entry) for entry in before.split(os.pathsep) if entry]
    packages = [Path(entry) / "nvidia" for entry in search_path or sys.path]
    return tuple(_find(name, folders, packages, load) for name in names)


def _find(
    name: str, folders: list[Path], packages: list[Path], load: Callable[[str], Any]
) -> CUDALibrary:
    for path in (folder / name for folder in folders):
        if path.exists():
            return CUDALibrary(name, str(path), "LD_LIBRARY_PATH")
    for folder in packages:
        for path in folder.glob(f"*/lib/{name}"):
            return CUDALibrary(name, str(path), "pip")
    try:
        load(name)
    except OSError as error:
        return CUDALibrary(name, error=str(error))
    return CUDALibrary(name, "system", "system")


def _major(version: str | None) -> int:
    text = (version or "").split(".")[0]
    return int(text) if text.isdigit() else 0
