"""A time in which no step of a run ended, and what the process did."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Hang:
    """A time without a step that was much longer than the usual step time.

    Attributes:
        began_s: When the last step before it ended.
        activity: Activity of the process, such as "waiting for input, load (train.py:31)".
        stacks: Python stacks of the training thread and of threads in user code or in the input,
            innermost frames first.
        lasted_s: Time until a step ended; None as long as none has.
    """

    began_s: float
    step: int
    activity: str
    stacks: tuple[str, ...] = ()
    lasted_s: float | None = None

    @property
    def is_wait(self) -> bool:
        """Whether the process waited, rather than being in a long part of its work."""
        return self.activity.startswith("waiting")
