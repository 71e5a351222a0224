"""Folders that the fits in one run of a script are written to."""

from __future__ import annotations

import mmap
import re
import time
import weakref
from pathlib import Path
from typing import Any

from keras_gpukit.whole_files import new_folder

SHARED = "GPUKIT_RUN_FOLDER"
"""Environment variable with the folder that all processes of one job write to."""
_UNNAMED = re.compile(r"(sequential|functional|model)(_\d+)?")
"""Names that Keras gives to models without one. They say less than the script's name."""
_UNSUITABLE = re.compile(r"[^\w.+-]+")
_LONGEST = 60
_NAME_BYTES = 1024  # longer than any name of `_LONGEST` characters and a time


class RunFolder:
    """Folder for one run of a script, with a subfolder for each model.

    The fits of one model share a subfolder: their global step continues from one to the next.

    Args:
        log_dir: Parent of the run's folder, which is created when it is first needed.
        script: Name of the script or module. The folder is named after it and the time.
        shared: The run's folder, if another process has created it.
    """

    def __init__(self, log_dir: Path, script: str, *, shared: Path | None = None) -> None:
        self._log_dir = log_dir
        self._script = file_name(script)
        self._name = f"{self._script}-{time.strftime('%Y%m%d-%H%M%S')}"
        self._path = shared
        # Memory that is shared with forks, such as children of multiprocessing. It contains the
        # folder's name once one of them has created the folder.
        self._made = mmap.mmap(-1, _NAME_BYTES)
        self._of_models: weakref.WeakKeyDictionary[Any, Path] = weakref.WeakKeyDictionary()
        self._taken: set[str] = set()

    def path(self) -> Path:
        """Returns the run's folder, and creates it unless this process or a fork has done so.

        Raises:
            OSError: If the folder cannot be created.
        """
        if self._path is None:
            if not self.is_made:
                name = new_folder(self._log_dir, self._name, separator="-").name.encode()
                self._made[: len(name)] = name
            self._path = self._log_dir / self._made[:].rstrip(b"\0").decode()
        return self._path

    @property
    def is_made(self) -> bool:
        """Whether the run's folder exists, created by this process, a fork of it or another one."""
        return self._path is not None or self._made[0] != 0

    def of_model(self, model: Any) -> Path:
        """Returns the folder of a model, which is the same for all its fits.

        It is named after the model or, if that has no name of its own, after the script.

        Raises:
            OSError: If the run's folder cannot be created.
        """
        folder = self._of_models.get(model)
        if folder is None:
            given = str(getattr(model, "name", "model"))
            name = base = self._script if _UNNAMED.fullmatch(given) else file_name(given)
            number = 1
            while name in self._taken:
                number += 1
                name = f"{base}-{number}"
            self._taken.add(name)
            folder = self._of_models[model] = self.path() / name
        return folder


def file_name(text: str) -> str:
    """Returns a name for a file or folder, made of a text, that suits every file system."""
    return _UNSUITABLE.sub("-", text).strip(".-")[:_LONGEST] or "unnamed"
