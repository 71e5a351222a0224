"""Whether an exception ended the run."""

from __future__ import annotations

from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.rule import Outcome, Rule

# The user's own way to end a run.
_ON_PURPOSE = ("KeyboardInterrupt", "SystemExit")


class EndedByError(Rule):
    """A run that an exception of a step or a callback ended.

    No threshold: the exception was seen. One of memory has a rule of its own, and an interrupt by
    the user is no fault.
    """

    code = "ended-by-error"
    title = "The run ended by an exception"
    requires = "the exception that ended the run"

    def judge(self, summary: RunSummary) -> Outcome:
        """Names the exception."""
        error = summary.ended_by
        if error is None:
            return None if summary.ending == "completed" else self.abstain()
        if summary.out_of_memory is not None or error.startswith(_ON_PURPOSE):
            return None
        return self.find(
            "critical",
            advice=("The script's traceback says why; all other figures are of what ran before",),
            title=f"The run was ended by {error}",
        )
