"""The machine, TensorFlow's settings and its CUDA libraries; changes and starts nothing."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from keras_gpukit.frameworks import tf_runtime
from keras_gpukit.records.installation import (
    Build,
    CUDALibrary,
    CUDAPackage,
    Machine,
    TensorFlowState,
)
from keras_gpukit.records.names import OF_GPUS
from keras_gpukit.sensors.devices import listed_gpus
from keras_gpukit.sensors.driver import read_driver


def read_machine() -> Machine:
    """Reads everything that a plan is based on, except the strategies of this process."""
    import keras

    driver = read_driver()
    build = read_build()
    return Machine(
        gpus=listed_gpus(driver),
        state=read_state(),
        build=build,
        driver=driver,
        libraries=read_libraries(build),
        environment=read_environment(),
        platform=sys.platform,
        keras_backend=keras.config.backend(),
    )


def read_state() -> TensorFlowState:
    """Reads the current settings of TensorFlow and Keras."""
    import keras
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    visible = tf.config.get_visible_devices("GPU")
    growth = tuple(tf.config.experimental.get_memory_growth(gpu) for gpu in gpus)
    cpus = tf.config.list_physical_devices("CPU")
    grows = tf_runtime.grows_memory() if gpus else None
    wanted = any(growth[gpus.index(gpu)] for gpu in visible)
    initialized = tf_runtime.is_initialized()
    return TensorFlowState(
        visible_gpus=tuple(gpus.index(gpu) for gpu in visible),
        growth=growth,
        memory_limit_mib=tuple(_memory_limit_mib(gpu) for gpu in gpus),
        logical_cpus=len(tf.config.get_logical_device_configuration(cpus[0]) or [None]),
        soft_placement=_ask(tf.config.get_soft_device_placement),
        log_device_placement=_ask(tf.debugging.get_log_device_placement),
        jit=_ask(tf.config.optimizer.get_jit),
        tf32=tf.config.experimental.tensor_float_32_execution_enabled(),
        deterministic=tf_runtime.is_deterministic(),
        dtype_policy=keras.config.dtype_policy().name,
        initialized=initialized,
        logical_gpus=len(tf.config.list_logical_devices("GPU")) if initialized else None,
        growth_dropped=None if grows is None else wanted and not grows,
    )


def read_build() -> Build:
    """Reads how TensorFlow was built."""
    import tensorflow as tf

    info = tf.sysconfig.get_build_info()
    cuda = bool(info.get("is_cuda_build"))
    needs: dict[str, str | None] = {}
    if cuda and not (info.get("cuda_version") and info.get("cudnn_version")):
        # From TensorFlow 2.22 on the versions are only in what its extra asks for.
        needs = {package.name: package.lowest for package in read_packages()}
    return Build(
        cuda=cuda,
        cuda_version=info.get("cuda_version") or _lowest(needs, "nvidia-cuda-runtime"),
        cudnn_version=info.get("cudnn_version") or _lowest(needs, "nvidia-cudnn"),
        compute_capabilities=tuple(info.get("cuda_compute_capabilities", ())),
    )


def _lowest(needs: dict[str, str | None], package: str) -> str | None:
    return next((version for name, version in needs.items() if name.startswith(package)), None)


def read_libraries(build: Build) -> tuple[CUDALibrary, ...]:
    """Looks for the CUDA libraries that this TensorFlow needs."""
    if not build.cuda or sys.platform != "linux":
        return ()
    return find_libraries(needed_libraries(build.cuda_version, build.cudnn_version))


def read_environment() -> dict[str, str]:
    """Reads the environment variables that affect GPUs and are set."""
    return {name: os.environ[name] for name in OF_GPUS if name in os.environ}


def _ask(getter: Callable[[], Any]) -> bool | None:
    try:
        return bool(getter())
    except ValueError:  # growth was set to differ between GPUs
        return None


def _memory_limit_mib(gpu: Any) -> tuple[int, ...] | None:
    import tensorflow as tf

    parts = tf.config.get_logical_device_configuration(gpu) or ()
    sizes = [int(part.memory_limit) for part in parts if part.memory_limit is not None]
    return tuple(sizes) or None


# Libraries that TensorFlow opens, by the CUDA release it was built for. If one of them is missing,
# it uses no GPU. The numbers are the libraries' own (soname), which differ from CUDA's:
# https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/ lists each release's component versions.
_LIBRARIES = ["cudart", "cublas", "cublasLt", "cufft", "cusolver", "cusparse"]
_BY_CUDA_MAJOR = {
    12: ["12", "12", "12", "11", "11", "12"],
    13: ["13", "13", "13", "12", "12", "12"],
}
# Prints one line of JSON for each library, so that the results before a crash are known. The
# argument is a JSON list of [name, path]. Versions are read from cuDNN and the CUDA runtime.
_LOAD = """
import ctypes, json, sys
for name, path in json.loads(sys.argv[1]):
    version, error = None, None
    try:
        library = ctypes.CDLL(name if path == "system" else path, ctypes.RTLD_GLOBAL)
        if name.startswith("libcudnn."):
            library.cudnnGetVersion.restype = ctypes.c_size_t
            version = library.cudnnGetVersion()
        elif name.startswith("libcudart."):
            number = ctypes.c_int()
            if library.cudaRuntimeGetVersion(ctypes.byref(number)) == 0:
                version = number.value
    except (OSError, AttributeError) as failure:
        error = str(failure)
    print(json.dumps([name, version, error]), flush=True)
"""
_AT_MOST_S = 60.0
EXTRA = "and-cuda"


def needed_libraries(cuda_version: str | None, cudnn_version: str | None) -> tuple[str, ...]:
    """Returns the libraries that TensorFlow opens if built for these versions; empty if unknown."""
    numbers = _BY_CUDA_MAJOR.get(_major(cuda_version), [])
    names = [f"lib{name}.so.{number}" for name, number in zip(_LIBRARIES, numbers, strict=False)]
    cudnn = _major(cudnn_version)
    return (*names, f"libcudnn.so.{cudnn}") if names and cudnn else tuple(names)


def find_libraries(names: tuple[str, ...]) -> tuple[CUDALibrary, ...]:
    """Looks for each library in the places where the loader looks for TensorFlow 2.21.

    TensorFlow's own libraries name the folders of NVIDIA's pip packages as RUNPATH. The loader
    searches these after LD_LIBRARY_PATH and before the system's folders: see `man ld.so`. Packages
    are in the folders of `sys.path`.
    """
    before = os.environ.get("LD_LIBRARY_PATH", "")
    folders = [Path(entry) for entry in before.split(os.pathsep) if entry]
    packages = [Path(entry) / "nvidia" for entry in sys.path]
    return tuple(_find(name, folders, packages) for name in names)


def _find(name: str, folders: list[Path], packages: list[Path]) -> CUDALibrary:
    for path in (folder / name for folder in folders):
        if path.exists():
            return CUDALibrary(name, str(path), "LD_LIBRARY_PATH")
    for folder in packages:
        for path in folder.glob(f"*/lib/{name}"):
            return CUDALibrary(name, str(path), "pip")
    try:
        ctypes.CDLL(name)
    except OSError as error:
        return CUDALibrary(name, error=str(error))
    return CUDALibrary(name, "system", "system")


def _major(version: str | None) -> int:
    text = (version or "").split(".")[0]
    return int(text) if text.isdigit() else 0


def try_loading(libraries: tuple[CUDALibrary, ...]) -> tuple[CUDALibrary, ...]:
    """Loads the libraries that were found, in order; adds versions or the loader's messages."""
    present = [(lib.name, lib.path) for lib in libraries if lib.path is not None]
    if not present:
        return libraries
    try:
        done = subprocess.run(
            [sys.executable, "-c", _LOAD, json.dumps(present)],
            capture_output=True,
            text=True,
            timeout=_AT_MOST_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return libraries  # whether they load stays unknown
    found = {name: rest for name, *rest in map(json.loads, done.stdout.splitlines())}
    crashed = next((name for name, _ in present if name not in found), None)
    if crashed is not None:
        found[crashed] = [None, f"loading it ended the process with code {done.returncode}"]
    return tuple(
        replace(lib, version=_version(lib.name, found[lib.name][0]), error=found[lib.name][1])
        if lib.name in found
        else lib
        for lib in libraries
    )


def _version(name: str, number: int | None) -> str | None:
    """Returns a version in the usual notation: 91002 of cuDNN is 9.10.2."""
    if number is None:
        return None
    if name.startswith("libcudart."):
        return f"{number // 1000}.{number % 1000 // 10}"
    return f"{number // 10_000}.{number % 10_000 // 100}.{number % 100}"


def read_packages() -> tuple[CUDAPackage, ...]:
    """Returns the packages of TensorFlow's extra `and-cuda`, with their installed versions.

    TensorFlow's build info contains only cuDNN's major version. The extra names the lowest version
    that TensorFlow was built for.
    """
    try:
        listed = metadata.requires("tensorflow") or ()
    except metadata.PackageNotFoundError:
        return ()
    found = []
    for text in listed:
        need = Requirement(text)
        if need.marker is None or not need.marker.evaluate({"extra": EXTRA}):
            continue
        if need.marker.evaluate({"extra": ""}):  # one that every installation needs
            continue
        try:
            installed = metadata.version(need.name)
        except metadata.PackageNotFoundError:
            found.append(CUDAPackage(need.name, str(need.specifier)))
            continue
        fits = need.specifier.contains(installed, prereleases=True)
        found.append(CUDAPackage(need.name, str(need.specifier), installed, fits))
    return tuple(found)
