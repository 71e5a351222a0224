"""Log files with the complete output of each process."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from keras_gpukit.distributed.launching.processes.tasks import Task


class LogFiles:
    """Opens `worker-0.log`, `worker-1.log`, … in a folder, and appends to them if they exist.

    Args:
        folder: Folder of the files, created if needed; None writes nothing.
        command: Command that is written to each file at each start.

    Raises:
        OSError: If the folder cannot be created.
    """

    def __init__(self, folder: Path | None, command: Sequence[str]) -> None:
        self._folder = folder
        self._command = " ".join(command)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

    def open(self, task: Task) -> IO[bytes] | None:
        """Opens the file of a process without a buffer; returns None if nothing is written.

        Raises:
            OSError: If the file cannot be written.
        """
        if self._folder is None:
            return None
        path = self._folder / f"{task.name.replace(' ', '-')}.log"
        file = path.open("ab", buffering=0)
        started = time.strftime("%Y-%m-%d %H:%M:%S")
        file.write(f"--- {started} {task.name}: {self._command}\n".encode())
        return file
