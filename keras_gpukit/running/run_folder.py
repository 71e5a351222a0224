"""Where the fits of one run of a script are written."""

from __future__ import annotations

import mmap
import re
import time
import weakref
from pathlib import Path
from typing import Any

from keras_gpukit.writers.whole_files import new_folder

SHARED = "GPUKIT_RUN_FOLDER"
"""Environment variable by which several processes of one job write to one folder."""
_UNSUITABLE = re.compile(r"[^\w.+-]+")
_LONGEST = 60
_NAME_BYTES = 1024  # more than a name of so many characters and a time can have


class RunFolder:
    """One folder for a run of a script, and one in it for each model.

    The fits of one model share its folder: their global step goes on from one to the next.

    Args:
        log_dir: The folder above; the run's own is made when it is first needed.
        script: What is run: names the folder, together with the time.
        shared: The run's own folder, where another process has made it.
    """

    def __init__(self, log_dir: Path, script: str, *, shared: Path | None = None) -> None:
        self._log_dir = log_dir
        self._name = f"{file_name(script)}-{time.strftime('%Y%m%d-%H%M%S')}"
        self._path = shared
        # Memory that forks share, such as children of multiprocessing: the name, once one made it.
        self._made = mmap.mmap(-1, _NAME_BYTES)
        self._of_models: weakref.WeakKeyDictionary[Any, Path] = weakref.WeakKeyDictionary()
        self._taken: set[str] = set()

    def path(self) -> Path:
        """The run's own folder, made if neither this process nor a fork has made it.

        Raises:
            OSError: If it cannot be made.
        """
        if self._path is None:
            if not self.is_made:
                name = new_folder(self._log_dir, self._name, separator="-").name.encode()
                self._made[: len(name)] = name
            self._path = self._log_dir / self._made[:].rstrip(b"\0").decode()
        return self._path

    @property
    def is_made(self) -> bool:
        """Whether this process or a fork of it has made the run's own folder."""
        return self._path is not None or self._made[0] != 0

    def of_model(self, model: Any) -> Path:
        """The folder of a model, which is the same for all its fits.

        Raises:
            OSError: If the run's folder cannot be made.
        """
        folder = self._of_models.get(model)
        if folder is None:
            name = base = file_name(str(getattr(model, "name", "model")))
            number = 1
            while name in self._taken:
                number += 1
                name = f"{base}-{number}"
            self._taken.add(name)
            folder = self._of_models[model] = self.path() / name
        return folder


def file_name(text: str) -> str:
    """A file name like a text, such as a model's name, that suits every file system."""
    return _UNSUITABLE.sub("-", text).strip(".-")[:_LONGEST] or "unnamed"
