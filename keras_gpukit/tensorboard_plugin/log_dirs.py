"""Which folders TensorBoard was started on."""

from __future__ import annotations

import os
import re
from pathlib import Path

# A scheme of two letters or more; a single one is a Windows drive.
_URI = re.compile(r"[a-zA-Z][0-9a-zA-Z.+-]+://")


def log_dirs(logdir: str | None, logdir_spec: str | None) -> dict[str, Path]:
    """Returns the local log directories, by the name that TensorBoard shows them under.

    Args:
        logdir: The flag `--logdir`: one folder, which needs no name.
        logdir_spec: The flag `--logdir_spec`: `name:path,name:path`, where names may be missing.

    Folders elsewhere, such as gs://bucket/logs, are left out: they are not read.
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
    """As TensorBoard does: /a:b, C:/a and gs://a are paths, the rest may begin with a name."""
    named = ":" in spec and not spec.startswith("/") and not os.path.splitdrive(spec)[0]
    if not named or _URI.match(spec):
        return "", spec
    name, _, path = spec.partition(":")
    return name, path


def _absolute(path: str) -> Path:
    # The current folder may change later, so the path is settled now; the folder may come later.
    return Path(os.path.abspath(os.path.expanduser(path)))
