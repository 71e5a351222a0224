"""NVIDIA's pip packages, and the versions that TensorFlow requires."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import metadata

from packaging.requirements import Requirement

from keras_gpukit.records.gpu_health import CUDAPackage

EXTRA = "and-cuda"


def read_packages(
    requires: Callable[[str], Sequence[str] | None] = metadata.requires,
    version: Callable[[str], str] = metadata.version,
) -> tuple[CUDAPackage, ...]:
    """Returns the packages of TensorFlow's extra `and-cuda`, with their installed versions.

    TensorFlow's build info contains only cuDNN's major version. The extra names the lowest version
    that TensorFlow was built for.
    """
    try:
        listed = requires("tensorflow") or ()
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
            installed = version(need.name)
        except metadata.PackageNotFoundError:
            found.append(CUDAPackage(need.name, str(need.specifier)))
            continue
        fits = need.specifier.contains(installed, prereleases=True)
        found.append(CUDAPackage(need.name, str(need.specifier), installed, fits))
    return tuple(found)
