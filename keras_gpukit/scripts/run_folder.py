"""Folders that the fits in one run of a script are written to."""

from __future__ import annotations

import contextlib
import mmap
import re
import time
import weakref
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_gpukit.distributed.clusters import read_cluster
from keras_gpukit.errors import ClusterError
from keras_gpukit.records.cluster import trains_with_others
from keras_gpukit.records.names import FOLDER
from keras_gpukit.whole_files import new_folder

SHARED = "GPUKIT_RUN_FOLDER"
"""Environment variable with the folder that all processes of one job write to."""
FOLLOWED = "GPUKIT_FOLLOW"
"""Environment variable by which `run --follow` has the processes that a script starts monitored."""
_UNNAMED = re.compile(r"(sequential|functional|model)(_\d+)?")
"""Names that Keras gives to models without one. They say less than the script's name."""
_UNSUITABLE = re.compile(r"[^\w.+-]+")
_LONGEST = 60
_NAME_BYTES = 1024  # longer than any name of `_LONGEST` characters and a time


_JOINED_WITHIN_S = 600.0
"""Seconds from the first worker's first fit to the last one's."""


@dataclass(frozen=True)
class JobWorker:
    """A process's place in a job of several workers; each knows its name without the others."""

    name: str
    index: int

    @property
    def records(self) -> str:
        """Pattern of this worker's records in a folder of the job."""
        return f"*/{FOLDER}/run-{self.index}.*"


def job_of(environment: Mapping[str, str]) -> JobWorker | None:
    """Returns the job that environment variables describe; None for a process of its own."""
    try:
        cluster = read_cluster(environment)
    except ClusterError:  # it is for the script to find out
        return None
    worker = cluster.worker if cluster else None
    if cluster is None or worker is None or not trains_with_others(worker):
        return None
    known = zlib.crc32(repr(sorted(cluster.addresses.items())).encode())
    return JobWorker(f"{worker.count}-workers-{known:08x}", worker.index or 0)


class RunFolder:
    """Folder for one run of a script, with a subfolder for each model.

    The fits of one model share a subfolder: their global step continues from one to the next.

    The folder is created in `log_dir` when it is first needed, unless another process has created
    it as `shared`. It is named after the script and the time. The workers of a job share one that
    is named after the job.

    Args:
        trains_together: Whether the processes that share the folder train one model, and so write
            to one subfolder for it.
    """

    def __init__(
        self,
        log_dir: Path,
        script: str,
        *,
        shared: Path | None = None,
        job: JobWorker | None = None,
        trains_together: bool = False,
    ) -> None:
        self._log_dir = log_dir
        self._script = file_name(script)
        self._job = job
        self._name = f"{self._script}-{job.name if job else time.strftime('%Y%m%d-%H%M%S')}"
        self._path = shared
        self._trains_together = trains_together or job is not None
        # Memory that is shared with forks, such as children of multiprocessing. It contains the
        # folder's name once one of them has created the folder.
        self._made = mmap.mmap(-1, _NAME_BYTES)
        self._of_models: weakref.WeakKeyDictionary[Any, Path] = weakref.WeakKeyDictionary()
        self._taken: set[str] = set()

    def path(self) -> Path:
        """Returns the run's folder, and creates it unless this process or a fork has done so."""
        if self._path is None:
            if not self.is_made:
                name = self._make().name.encode()
                self._made[: len(name)] = name
            self._path = self._log_dir / self._made[:].rstrip(b"\0").decode()
        return self._path

    def _make(self) -> Path:
        if self._job is None:
            return new_folder(self._log_dir, self._name, separator="-")
        made = list(self._log_dir.glob(f"{self._name}*"))
        newest = max(made, key=_made_s, default=None)
        # With a record of this worker, it is of an earlier run.
        is_young = newest is not None and time.time() - _made_s(newest) < _JOINED_WITHIN_S
        if newest is not None and is_young and not any(newest.glob(self._job.records)):
            return newest
        folder = self._log_dir / (f"{self._name}-{len(made) + 1}" if made else self._name)
        folder.mkdir(parents=True, exist_ok=True)  # another worker may make it at this moment
        return folder

    @property
    def is_made(self) -> bool:
        """Whether the run's folder exists, created by this process, a fork of it or another one."""
        return self._path is not None or self._made[0] != 0

    def of_model(self, model: Any) -> Path:
        """Returns the folder of a model, which is the same for all its fits.

        It is named after the model or, if that has no name of its own, after the script.
        """
        folder = self._of_models.get(model)
        if folder is None:
            given = str(getattr(model, "name", "model"))
            folder = self._of_models[model] = self.named(
                self._script if _UNNAMED.fullmatch(given) else given
            )
        return folder

    def named(self, name: str) -> Path:
        """Returns a new subfolder with a name, to which a number is added if it is taken."""
        base = name = file_name(name)
        if not self._trains_together:  # forks, or processes that are followed, may want it too
            return new_folder(self.path(), base, separator="-")
        number = 1
        while name in self._taken:
            number += 1
            name = f"{base}-{number}"
        self._taken.add(name)
        return self.path() / name

    def remove_if_empty(self) -> None:
        """Removes the run's folder if nothing was written to it."""
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.rmdir()
                self._path, self._made[0] = None, 0


def _made_s(folder: Path) -> float:
    return folder.stat().st_mtime


def file_name(text: str) -> str:
    """Returns a name for a file or folder, made of a text, that suits every file system."""
    return _UNSUITABLE.sub("-", text).strip(".-")[:_LONGEST] or "unnamed"
