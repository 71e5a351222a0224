"""Infers from facts alone why TensorFlow cannot use its CUDA libraries, and how to fix that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keras_gpukit.records.gpu_health import CUDAPackage, Problem
from keras_gpukit.records.installation import CUDALibrary

INSTALL = 'pip install "tensorflow[and-cuda]"'


def library_problems(
    libraries: Sequence[CUDALibrary], packages: Sequence[CUDAPackage]
) -> tuple[Problem, ...]:
    """Returns the problems of the libraries that were found; missing ones are left to `no_gpu`."""
    return (
        *(_broken(each) for each in libraries if each.path is not None and each.error is not None),
        *_old_cudnn(libraries, packages),
        *(_clash(each) for each in packages if each.fits is False),
    )


def _broken(library: CUDALibrary) -> Problem:
    return Problem(
        "library_not_loadable",
        f"{library.name} is at {library.path} and cannot be loaded: {library.error}.",
        _replace(library),
        blocks=True,
    )


def _old_cudnn(
    libraries: Sequence[CUDALibrary], packages: Sequence[CUDAPackage]
) -> Iterator[Problem]:
    """Yields a problem if the cuDNN that the loader finds is too old for TensorFlow.

    TensorFlow needs the major version that it was built for, and at least that minor version:
    `IsSourceCompatibleWithCudnnLibrary` in XLA's stream_executor/cuda/cuda_dnn.cc.
    """
    library = next((each for each in libraries if each.name.startswith("libcudnn.")), None)
    package = next((each for each in packages if each.name.startswith("nvidia-cudnn-")), None)
    if library is None or package is None or library.version is None or package.lowest is None:
        return
    if _parts(library.version)[:2] < _parts(package.lowest)[:2]:
        yield Problem(
            "old_cudnn",
            f"The loader finds cuDNN {library.version} ({library.path}); this TensorFlow was "
            f"built for {package.lowest} or newer, and its convolutions fail with an older minor "
            "version.",
            f'pip install "{package.name}{package.needs}".'
            if library.source == "pip"
            else _replace(library),
            blocks=True,
        )


def _clash(package: CUDAPackage) -> Problem:
    return Problem(
        "package_clash",
        f"{package.name} {package.installed} is installed; TensorFlow asks for {package.needs}.",
        f'pip install "{package.name}{package.needs}", in an environment without the package that '
        "asked for the other version (`pip check` names it).",
    )


def _replace(library: CUDALibrary) -> str:
    if library.source == "LD_LIBRARY_PATH":
        return (
            "LD_LIBRARY_PATH leads to it, before TensorFlow's own packages: take that folder out "
            f"of the variable, and {INSTALL}."
        )
    if library.source == "pip":
        return f"Install it again: {INSTALL} --force-reinstall."
    return f"The system's own library is used because the pip package is missing: {INSTALL}."


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
