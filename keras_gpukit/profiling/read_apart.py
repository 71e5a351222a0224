"""Reads a profile in a separate process of low priority, while training goes on in this one.

    python -m keras_gpukit.profiling.read_apart PROFILE

Reading holds the GIL. A thread of low priority that holds it would delay training on a busy machine
even longer than one of normal priority; a process shares no GIL. It loads no TensorFlow.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import msgspec

from keras_gpukit.errors import ProfileError
from keras_gpukit.records.codec import checked_record
from keras_gpukit.records.profile import ProfileRecord

# Our choice. Ten steps of a large model take some megabytes; reading takes four times the size.
LARGEST_BYTES = 64 << 20
"""Size of the largest profile that a run reads."""
READ_WITHIN_S = 20.0
_LOWEST_PRIORITY = 19
_PACKAGES = Path(__file__).parents[2]


def read_apart(path: Path) -> ProfileRecord:
    """Reads a profile like `read_profile`, in a separate process.

    Raises:
        ProfileError: If the profile is larger than `LARGEST_BYTES`, or cannot be read in time.
        OSError: If the file or the process cannot be opened.
    """
    size_bytes = path.stat().st_size
    if size_bytes > LARGEST_BYTES:
        raise ProfileError(
            f"it has {size_bytes / 2**20:,.0f} MiB; a run reads up to {LARGEST_BYTES >> 20} MiB"
        )
    try:
        read = subprocess.run(
            [sys.executable, "-m", __name__, str(path.absolute())],
            cwd=_PACKAGES,  # the package may be on this process' path only
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=READ_WITHIN_S,
            check=True,
        )
    except subprocess.TimeoutExpired:
        raise ProfileError(f"it was not read within {READ_WITHIN_S:g} s") from None
    except subprocess.CalledProcessError as error:
        last = error.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        because = last[0] if last else f"its process ended with {error.returncode}"
        raise ProfileError(f"it cannot be read: {because}") from None
    return checked_record(msgspec.Raw(read.stdout), ProfileRecord)


def _main() -> None:
    from keras_gpukit.profiling.read import read_profile  # not needed by the process that trains

    with suppress(AttributeError, OSError):  # Windows has no such priorities
        os.nice(_LOWEST_PRIORITY)
    sys.stdout.buffer.write(msgspec.json.encode(read_profile(sys.argv[1])))


if __name__ == "__main__":
    _main()
