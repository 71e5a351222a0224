"""Finds the folders that TensorBoard was started on."""

from __future__ import annotations

import os
import re
from pathlib import Path

# A scheme has at least two letters; a single letter is a Windows drive.
_URI = re.compile(r"[a-zA-Z][0-9a-zA-Z.+-]+://")


def log_dirs(logdir: str | None, logdir_spec: str | None) -> dict[str, Path]:
    """Returns the local log directories by the names that TensorBoard shows.

    Remote folders, such as gs://bucket/logs, are not supported and left out.

    Args:
        logdir: Flag `--logdir`: one folder, whose name is "".
        logdir_spec: Flag `--logdir_spec`: `name:path,name:path`, where names are optional.
    """
    if logdir:
        return {} if _URI.match(logdir) else {"": _absolute(logdir)}
    found: dict[str, Path] = {}
    for spec in filter(None, (logdir_spec or "").split(",")):
        name, path = _split(spec)
        if not _URI.match(path):
            found[name or path] = _absolute(path)
    return found


def _split(spec: str) -> tuple[str, str]:
    """Splits "name:path" as TensorBoard does: /a:b, C:/a and gs://a are paths without a name."""
    named = ":" in spec and not spec.startswith("/") and not os.path.splitdrive(spec)[0]
    if not named or _URI.match(spec):
        return "", spec
    name, _, path = spec.partition(":")
    return name, path


def _absolute(path: str) -> Path:
    # Resolve the path now, because the current folder may change; the folder need not exist yet.
    return Path(os.path.abspath(os.path.expanduser(path)))
