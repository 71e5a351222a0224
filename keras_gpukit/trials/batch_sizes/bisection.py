"""Chooses the next batch size to try, so that few trials find the largest that fits."""

from __future__ import annotations

from collections.abc import Iterator

from keras_gpukit.rules.compute.batch_size import is_near_enough

STEP = 1.06
"""Factor of the first step beyond the batch size that was expected to be the largest. The n-th step
in the same direction uses the n-th power of the factor."""


class Bisection:
    """Brackets the largest batch size that fits, and halves the bracket.

    Attributes:
        failed: The smallest batch size that failed; None if none failed yet.
    """

    def __init__(self, most: int) -> None:
        self.failed: int | None = None
        self._passes: list[int] = []
        self._most = most
        self._in_a_row = 0
        self._expected: int | None = None

    @property
    def passed(self) -> int:
        """The largest batch size that passed and is below all that failed; 0 if none passed."""
        below = self._most if self.failed is None else self.failed - 1
        return max((each for each in self._passes if each <= below), default=0)

    @property
    def next(self) -> int | None:
        """The batch size to try next; None if the bracket is narrow enough or the maximum fits."""
        passed, failed = self.passed, self.failed
        if failed is None:
            further = self._expected or 0
            if further <= passed:
                further = max(passed + 1, int(passed * STEP**self._in_a_row))
            return None if passed >= self._most else min(further, self._most)
        if is_near_enough(passed, failed):
            return None
        middle = (passed + failed) // 2
        nearer = int(failed / STEP**self._in_a_row) if self._in_a_row else middle
        return max(middle, min(nearer, failed - 1))

    def note(self, batch_size: int, fits: bool, expected: int | None = None) -> None:
        """Records the outcome of a trial."""
        self._expected = expected
        if fits:
            goes_on = self.failed is None and (expected or 0) <= batch_size
            self._in_a_row = self._in_a_row + 1 if goes_on else 0
            self._passes.append(batch_size)
            return
        self._in_a_row = 1 if self.failed is None else self._in_a_row + 1
        self.failed = min(batch_size, self.failed or batch_size)


def halves(largest: int) -> Iterator[int]:
    """Yields a batch size, then each power of two below it in descending order."""
    yield largest
    size = 2 ** ((largest - 1).bit_length() - 1) if largest > 1 else 0
    while size:
        yield size
        size //= 2
