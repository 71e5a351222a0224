"""Chooses the next batch size to try, so that few trials find the largest that fits."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from keras_gpukit.rules.compute.batch_size import is_near_enough

STEP = 1.06
"""Factor of the first step beyond the batch size that was expected to be the largest. The n-th step
in the same direction uses the n-th power of the factor."""
NARROW = 1.1
"""Ratio of the ends of a bracket that is narrow enough if time is short."""
CAUTIOUS_EXPECTED, CAUTIOUS_BRACKET = 2 / 3, 1 / 3
"""Sizes of a cautious step, for searches in which a failure takes several times as long as a pass:
shares of the distance to the expected largest batch size, and to the smallest one that failed."""


class Bisection:
    """Brackets the largest batch size that fits, and halves the bracket.

    Args:
        most: Maximum batch size to try.
        cautious: Whether to take smaller steps up, because a failure takes several times as long as
            a pass.
    """

    def __init__(self, most: int, *, cautious: bool = False) -> None:
        self._cautious = cautious
        self._passes: list[int] = []
        # Failed batch sizes, and whether the failure is in doubt.
        self._failures: dict[int, bool] = {}
        self._most = most
        self._in_a_row = 0
        self._expected: int | None = None

    @property
    def failed(self) -> int | None:
        """The smallest batch size that failed; None if none failed yet."""
        return min(self._failures, default=None)

    @property
    def passed(self) -> int:
        """The largest batch size that passed and is below all that failed; 0 if none passed."""
        below = self._most if self.failed is None else self.failed - 1
        return max((each for each in self._passes if each <= below), default=0)

    @property
    def is_narrow(self) -> bool:
        """Whether the bracket is narrow enough to stop if time is short."""
        return self.failed is not None and self.failed <= NARROW * self.passed

    @property
    def next(self) -> int | None:
        """The batch size to try next; None if the bracket is narrow enough or the maximum fits."""
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
        """Records the outcome of a trial.

        Args:
            batch_size: Batch size of the trial.
            fits: Whether the batch size fits.
            expected: Batch size that is now expected to be the largest; None if unknown.
            in_doubt: Whether a failure may have had another reason. The batch size is then tried
                again before the search ends.
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
    """Yields a batch size, then each power of two below it in descending order."""
    yield largest
    size = 2 ** ((largest - 1).bit_length() - 1) if largest > 1 else 0
    while size:
        yield size
        size //= 2
