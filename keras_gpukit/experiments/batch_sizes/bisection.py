"""Which batch size to try next, to find the largest that fits in few trials."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from keras_gpukit.rules.batch_size import is_near_enough

STEP = 1.06
"""How far the first step goes from a batch size that was expected to be the largest. Each further
one in the same direction goes as much further."""
NARROW = 1.1
"""Ratio of the ends of a bracket that may be left as it is where time is short."""
CAUTIOUS_EXPECTED, CAUTIOUS_BRACKET = 2 / 3, 1 / 3
"""Share of the way up that one step goes where a failure takes several times as long as a pass: to
a batch size that was expected to be the largest, and to one that failed."""


class Bisection:
    """Brackets the largest batch size that fits, and halves the bracket.

    Args:
        most: The largest batch size to try.
        cautious: Whether a failure takes several times as long as a pass.

    """

    def __init__(self, most: int, *, cautious: bool = False) -> None:
        self._cautious = cautious
        self._passes: list[int] = []
        # Whether each failure is in doubt, by batch size.
        self._failures: dict[int, bool] = {}
        self._most = most
        self._in_a_row = 0
        self._expected: int | None = None

    @property
    def failed(self) -> int | None:
        """The smallest that does not fit; None if none failed yet."""
        return min(self._failures, default=None)

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
            elif self._cautious and further > passed * STEP:
                further = passed + ceil(CAUTIOUS_EXPECTED * (further - passed))
            return min(further, self._most)
        if is_near_enough(passed, failed):
            return failed if self._failures[failed] else None
        if self._cautious:
            return passed + max(1, int(CAUTIOUS_BRACKET * (failed - passed)))
        middle = (passed + failed) // 2
        nearer = int(failed / STEP**self._in_a_row) if self._in_a_row else middle
        return max(middle, min(nearer, failed - 1))

    def note(
        self, batch_size: int, fits: bool, expected: int | None = None, *, in_doubt: bool = False
    ) -> None:
        """Takes in the outcome of a trial.

        Args:
            batch_size: Which was tried.
            fits: Whether it fits.
            expected: Where the largest is now expected, if that is known.
            in_doubt: Whether a failure may have had another reason. It is tried once more before
                the search ends by it.
        """
        self._expected = expected
        if fits:
            self._failures.pop(batch_size, None)
            goes_on = self.failed is None and (expected or 0) <= batch_size
            self._in_a_row = self._in_a_row + 1 if goes_on else 0
            self._passes.append(batch_size)
            return
        if self.failed is None:
            self._in_a_row = 1
        elif batch_size < self.failed:
            self._in_a_row += 1
        self._failures[batch_size] = in_doubt


def halves(largest: int) -> Iterator[int]:
    """Returns the largest, then each power of two below it."""
    yield largest
    size = 2 ** ((largest - 1).bit_length() - 1) if largest > 1 else 0
    while size:
        yield size
        size //= 2
