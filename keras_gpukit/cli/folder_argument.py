"""A folder as an argument of a command."""

from __future__ import annotations

import argparse
from pathlib import Path


def folder(text: str) -> Path:
    """Returns a folder's path; the folder need not exist.

    Raises:
        argparse.ArgumentTypeError: If the text is empty, or what stands there is no folder.
    """
    if not text:
        raise argparse.ArgumentTypeError("the folder's name is empty")
    path = Path(text).expanduser()
    if path.exists() and not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is not a folder")
    return Path(text)
