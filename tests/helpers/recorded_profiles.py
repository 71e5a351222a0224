"""Profiles that were recorded on an H100, as other tools leave them in a log folder."""

import functools
import gzip
import os
import tempfile
from pathlib import Path

from keras_gpukit.profiling import read_profile
from keras_gpukit.records import ProfileRecord

CASES = Path(__file__).parents[1] / "profiling" / "cases"


def write_profile(log_dir: Path, case: str, run: str = "2026_11_26", age_s: int = 0) -> str:
    """Writes a case as a profile of a log folder; returns its path there."""
    path = log_dir / "plugins" / "profile" / run / "vm.xplane.pb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.decompress((CASES / f"{case}.xplane.pb.gz").read_bytes()))
    os.utime(path, (1.7e9 - age_s, 1.7e9 - age_s))
    return path.relative_to(log_dir).as_posix()


@functools.cache
def read_recorded(case: str) -> ProfileRecord:
    """A case, read once for all tests."""
    with tempfile.TemporaryDirectory() as folder:
        return read_profile(Path(folder, write_profile(Path(folder), case)))
