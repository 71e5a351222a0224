"""The check of the argument `log_dir`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any


def checked_log_dir(log_dir: Any) -> Path | None:
    """Returns `log_dir` as a path, or None to write nothing.

    Raises:
        TypeError: If it is not a path.
        ValueError: If it is empty, a file, or not on a file system.
    """
    if log_dir is None:
        return None
    accepted = "a folder's path, or None to write nothing"
    if not isinstance(log_dir, (str, os.PathLike)) or isinstance(os.fspath(log_dir), bytes):
        raise TypeError(f"`log_dir` must be {accepted}. Received: log_dir={log_dir!r}")
    text = os.fspath(log_dir)
    if not text or "\0" in text or "://" in text:
        raise ValueError(
            f"`log_dir` must be {accepted}, on a file system. Received: log_dir={log_dir!r}"
        )
    try:
        path = Path(text).expanduser()
        standing = next(
            each for each in (path.absolute(), *path.absolute().parents) if each.exists()
        )
    except (OSError, RuntimeError) as error:
        raise ValueError(
            f"`log_dir` must be {accepted} ({error}). Received: log_dir={log_dir!r}"
        ) from error
    if not standing.is_dir():
        raise ValueError(
            f"`log_dir` must be {accepted}, and {standing} is a file. Received: log_dir={log_dir!r}"
        )
    return path
