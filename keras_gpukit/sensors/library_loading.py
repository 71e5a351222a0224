"""Checks whether the CUDA libraries that were found can be loaded, and reads their versions.

A separate process loads them: a broken library may crash it, and no library stays in this process.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

from keras_gpukit.records.installation import CUDALibrary

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


def try_loading(libraries: tuple[CUDALibrary, ...]) -> tuple[CUDALibrary, ...]:
    """Loads the libraries that were found, in order; adds versions or the loader's messages."""
    present = [(each.name, each.path) for each in libraries if each.path is not None]
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
        replace(each, version=_version(each.name, found[each.name][0]), error=found[each.name][1])
        if each.name in found
        else each
        for each in libraries
    )


def _version(name: str, number: int | None) -> str | None:
    """Returns a version in the usual notation: 91002 of cuDNN is 9.10.2, and 8907 is 8.9.7."""
    if number is None:
        return None
    if name.startswith("libcudart."):
        return f"{number // 1000}.{number % 1000 // 10}"
    major = 10_000 if number >= 90_000 else 1_000
    return f"{number // major}.{number % major // 100}.{number % 100}"
