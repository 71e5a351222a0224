"""Decides whether and where elements may be cached, from the user's choice or by asking."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import uuid
import weakref
from collections.abc import Callable
from typing import Any, Literal

from keras_gpukit.input.pipelines.structure import Dataset, cache_file
from keras_gpukit.records.tuning import CACHE_NOT_ALLOWED
from keras_gpukit.trials.measuring.rounds import Gain

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
    """The user's permission to cache elements.

    Args:
        choice: The `cache` argument of `tune_input`: "ask", "memory", "disk", True or False.
        folder: Existing folder for the files of a cache; None for a temporary folder.
        ask: Asks the user a question and returns whether the answer is yes.
    """

    def __init__(
        self, choice: Choice, folder: str | os.PathLike[str] | None, ask: Callable[[str], bool]
    ) -> None:
        self.places = _PLACES[choice]
        """Places where elements may be cached, the preferred place first."""
        self._asks = choice == "ask"
        self._ask = ask
        self.is_temporary = folder is None
        """Whether the folder of the cache is removed when the dataset is deleted."""
        name = f"keras_gpukit-cache-{uuid.uuid4().hex[:12]}"
        self.folder = tempfile.gettempdir() if folder is None else os.fspath(folder)
        """Existing folder in which the cache's own folder is made."""
        # The name is unique: TensorFlow reads an existing file, whichever pipeline wrote it.
        self.path = os.path.join(self.folder, name, "elements")
        """Path prefix of the files of a cache on disk."""

    def decide(self, description: str, found: Gain) -> str:
        """Returns why a cache that makes the pipeline faster is not kept; "" if it is kept.

        Args:
            description: Description of the change, for the question to the user.
            found: Measured gain of the cache.
        """
        if not self._asks:
            return ""
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            return CACHE_NOT_ALLOWED
        question = f"{found.gain:.1f}× faster: {description}?"
        return "" if self._ask(question) else "not wanted"

    def make_room(self, cache: Dataset) -> None:
        """Makes the folder of a cache on disk; a temporary one is removed with the dataset."""
        if not cache_file(cache):
            return
        folder = os.path.dirname(self.path)
        os.makedirs(folder, exist_ok=True)
        if self.is_temporary:
            weakref.finalize(cache, shutil.rmtree, folder, ignore_errors=True)
