"""Counts how many threads are inside functions, over looks at their stacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import CodeType

MINIMUM_LOOKS = 10
"""Minimum number of looks for a mean."""
MINIMUM_FOUND = 3
"""Number of threads found inside a function before it counts as the slowest: our choice."""


class CodeWatch:
    """Counts the looks at which threads are inside functions.

    Args:
        codes: Code of the functions. If one calls another, only the called one counts as busy.
        thread: Thread that is looked at; None for all.
        when: Whether a look counts.
    """

    def __init__(
        self,
        codes: Iterable[CodeType],
        thread: int | None = None,
        when: Callable[[], bool] = lambda: True,
    ) -> None:
        self._codes = {id(code): code for code in codes}
        self._thread = thread
        self._when = when
        self.looks = 0
        self._found: Counter[int] = Counter()  # threads inside, over all looks

    @property
    def found(self) -> dict[CodeType, int]:
        """Number of threads inside each function that was found, over all looks."""
        return {self._codes[each]: count for each, count in self._found.copy().items()}

    def mean_threads(self) -> float | None:
        """Returns the mean number of threads inside the functions; None after too few looks.

        Also returns None if no look found a thread inside: a look needs the GIL, and may get it
        only once the function has returned.
        """
        inside = sum(self._found.values())
        return inside / self.looks if inside and self.looks >= MINIMUM_LOOKS else None

    def slowest(self) -> CodeType | None:
        """Returns the code that most looks found a thread inside; None if too few did."""
        code = max(self._codes, key=lambda each: self._found[each], default=None)
        return self._codes[code] if code and self._found[code] >= MINIMUM_FOUND else None

    def see(self, stacks: Mapping[int, Sequence[int]]) -> None:
        """Takes one look at the threads' stacks: the identities of codes, innermost first."""
        if not self._when():
            return
        self.looks += 1
        for thread, stack in stacks.items():
            if self._thread in (None, thread):
                inside = next(filter(self._codes.__contains__, stack), None)
                if inside is not None:
                    self._found[inside] += 1
