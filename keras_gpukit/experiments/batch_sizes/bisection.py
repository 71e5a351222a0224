"""Which batch size to try next, to find the largest that fits in few trials."""

from __future__ import annotations

from keras_gpukit.rules.batch_size import is_near_enough

STEP = 1.06
"""How far the first step goes from a batch size that was expected to be the largest. Each further
one in the same direction goes as much further."""
NARROW = 1.1
"""Ratio of the ends of a bracket that may be left as it is where time is short."""


class Bisection:
    """Brackets the largest batch size that fits, and halves the bracket.

    Args:
        most: The largest batch size to try.

    Attributes:
        failed: The smallest that does not fit; None if none failed yet.
    """

    def __init__(self, most: int) -> None:
        self.failed: int | None = None
        self._passes: list[int] = []
        self._most = most
        self._in_a_row = 0
        self._expected: int | None = None

    @property
    def passed(self) -> int:
        """The largest that fits, of those below the smallest that does not; 0 without any."""
        below = self._most if self.failed is None else self.failed - 1
        return max((each for each in self._passes if each <= below), default=0)

    @property
    def is_narrow(self) -> bool:
        """Whether the largest is known well enough, if not as well as it could be."""
        return self.failed is not None and self.failed <= NARROW * self.passed

    @property
    def next(self) -> int | None:
        """The batch size to try next; None where the answer is near enough, or all fit."""
        passed, failed = self.passed, self.failed
        if failed is None:
            if passed >= self._most:
                return None
            further = self._expected or 0
            if further <= passed:
                further = max(passed + 1, int(passed * STEP**self._in_a_row))
            return min(further, self._most)
        if is_near_enough(passed, failed):
            return None
        middle = (passed + failed) // 2
        nearer = int(failed / STEP**self._in_a_row) if self._in_a_row else middle
        return max(middle, min(nearer, failed - 1))

    def note(self, batch_size: int, fits: bool, expected: int | None = None) -> None:
        """Takes in the outcome of a trial.

        Args:
            batch_size: Which was tried.
            fits: Whether it fits.
            expected: Where the largest is now expected, if that is known.
        """
        self._expected = expected
        if fits:
            goes_on = self.failed is None and (expected or 0) <= batch_size
            self._in_a_row = self._in_a_row + 1 if goes_on else 0
            self._passes.append(batch_size)
        elif self.failed is None:
            self._in_a_row, self.failed = 1, batch_size
        elif batch_size < self.failed:
            self._in_a_row, self.failed = self._in_a_row + 1, batch_size
