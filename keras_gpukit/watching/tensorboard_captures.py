"""Handles the captures of Keras' own TensorBoard callbacks in a call of `fit`.

Private names, seen on Keras 3.12 to 3.15, of `keras.callbacks.TensorBoard`: `_should_trace`,
`_start_batch`, `_stop_batch` and `_global_train_batch`. If one is missing, captures may collide
with that callback's: TensorFlow records one profile at a time, and the first to start gets it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from keras_gpukit.errors import Guard
from keras_gpukit.profiling.capturing.profile_files import (
    LARGEST_AMENDED_BYTES,
    amend,
    profile_files,
)
from keras_gpukit.whole_files import replace_file


class TensorBoardCaptures:
    """Captures of Keras' TensorBoard callbacks in a call.

    Args:
        callbacks: All callbacks of the call that begins.

    Attributes:
        callbacks: Those of them that capture.
    """

    def __init__(self, callbacks: Iterable[Any]) -> None:
        import keras

        self.callbacks = [
            each
            for each in callbacks
            if isinstance(each, keras.callbacks.TensorBoard)
            and getattr(each, "_should_trace", False)
            and hasattr(each, "_global_train_batch")
        ]
        self._began_s = time.time()

    def within(self, batches: int) -> str | None:
        """Returns which batches such a callback captures, if any are among the next ones.

        Args:
            batches: Number of next batches to check, including the current one.

        Returns:
            A sentence that names the callback and its batches; None if there is no such capture.
        """
        for each in self.callbacks:
            first = each._global_train_batch
            if first + batches > each._start_batch and first <= each._stop_batch:
                return (
                    f"keras.callbacks.TensorBoard captures the batches {each._start_batch} to "
                    f"{each._stop_batch}"
                )
        return None

    def amend(self) -> None:
        """Amends the profiles captured so far, so that the Profile tab finds their steps.

        Steps are marked, but in a profile with loops that is not enough. If a profile cannot be
        amended, a warning is logged and the profile stays as it is.
        """
        for each in self.callbacks:
            for path, status in profile_files(Path(each.log_dir, "train", "plugins", "profile")):
                if status.st_mtime < self._began_s or status.st_size > LARGEST_AMENDED_BYTES:
                    continue
                with Guard(f"Marking the steps in {path}", "TensorBoard may find no steps in it."):
                    _amend(path)


def _amend(path: Path) -> None:
    content = path.read_bytes()
    amended, _ = amend(content)
    if amended is not content:
        replace_file(path, amended)
