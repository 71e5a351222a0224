"""Runs a module of this package that reads a profile, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from keras_gpukit.errors import ProfileError

_PACKAGES = Path(__file__).parents[2]


def output_of(module: str, *arguments: str, timeout_s: float) -> bytes:
    """Returns what a module writes to its standard output.

    Args:
        module: Name of the module, which is run as a program.
        *arguments: Its arguments; paths must be absolute.
        timeout_s: Seconds after which the process is killed.

    Raises:
        ProfileError: If the process fails; the message is the last line of its errors.
        subprocess.TimeoutExpired: If it takes longer.
        OSError: If it cannot be started.
    """
    try:
        return subprocess.run(
            [sys.executable, "-m", module, *arguments],
            cwd=_PACKAGES,  # the package may be on this process' path only
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=True,
        ).stdout
    except subprocess.CalledProcessError as error:
        last = error.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise ProfileError(
            last[0] if last else f"its process ended with {error.returncode}"
        ) from None
