"""Whether elements may be cached, and where: what the user said, or is asked."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import uuid
import weakref
from collections.abc import Callable
from typing import Any, Literal

from keras_gpukit.measuring.rounds import Gain
from keras_gpukit.pipelines.structure import Dataset, cache_file
from keras_gpukit.records.tuning import CACHE_NOT_ALLOWED

Place = Literal["memory", "disk"]
Choice = Literal["ask", "memory", "disk"] | bool

_PLACES: dict[Any, tuple[Place, ...]] = {
    "ask": ("memory", "disk"),
    True: ("memory", "disk"),
    "memory": ("memory",),
    "disk": ("disk",),
    False: (),
}


class CachePermission:
    """The user's word on caching.

    Args:
        choice: "ask", "memory", "disk", True or False.
        folder: Where files go; None for a temporary folder.
        ask: Asks a question that is answered by yes or no.
    """

    def __init__(
        self, choice: Choice, folder: str | os.PathLike[str] | None, ask: Callable[[str], bool]
    ) -> None:
        self.places = _PLACES[choice]
        """Where elements may be, the preferred place first."""
        self._asks = choice == "ask"
        self._ask = ask
        self.is_temporary = folder is None
        """Whether it goes with the dataset."""
        name = f"keras_gpukit-cache-{uuid.uuid4().hex[:12]}"
        self.folder = tempfile.gettempdir() if folder is None else os.fspath(folder)
        """The folder whose disk a cache would fill."""
        # A name of its own: TensorFlow reads a file that is there, whatever pipeline wrote it.
        self.path = os.path.join(self.folder, name, "elements")
        """Where a cache on disk would be written."""

    def decide(self, description: str, found: Gain) -> str:
        """Says why a cache that pays may not be kept; "" where it may."""
        if not self._asks:
            return ""
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            return CACHE_NOT_ALLOWED
        question = f"{found.gain:.1f}× faster: {description}?"
        return "" if self._ask(question) else "not wanted"

    def make_room(self, cache: Dataset) -> None:
        """Makes the folder of a cache on disk; a temporary one goes with the dataset."""
        if not cache_file(cache):
            return
        folder = os.path.dirname(self.path)
        os.makedirs(folder, exist_ok=True)
        if self.is_temporary:
            weakref.finalize(cache, shutil.rmtree, folder, ignore_errors=True)
