"""A log folder with its runs, read and read again."""

from __future__ import annotations

import os
from pathlib import Path

from keras_gpukit.records.report import Report


class LogFolder:
    """The runs under a folder. Asked again, it reads what was added since.

    Args:
        path: A run's log folder, or one with several of them at any depth.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def report(self) -> Report:
        """Returns what there is now; may be called from any thread.

        Raises:
            FileNotFoundError: If the folder is not there, or holds no run and no profile.
            NotADirectoryError: If it is a file.
        """
        raise NotImplementedError


def load_report(path: str | os.PathLike[str]) -> Report:
    """Reads the runs under a folder once; see `LogFolder.report`."""
    return LogFolder(path).report()
