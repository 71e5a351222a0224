"""Meaning of NVIDIA's Xid error numbers, and what to do about each.

https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from keras_gpukit.records.gpu_health import Xid

_PROGRAM = "Mostly a fault of a program: run it with `compute-sanitizer`, or look at other GPUs."
_RESET = "Reset the GPU, `sudo nvidia-smi --gpu-reset`, or restart the machine."
_RETURN = f"{_RESET} If it comes back, test it with `dcgmi diag -r 3` and return it."


@dataclass(frozen=True)
class Meaning:
    """One kind of error.

    Attributes:
        text: Description of the error.
        advice: Recommended action.
        needs_reset: Whether the GPU needs a reset before it works again.
    """

    text: str
    advice: str
    needs_reset: bool = False


_OTHER = Meaning("of another kind", "Look it up in NVIDIA's Xid catalog.")
MEANINGS = {
    13: Meaning("an exception in a kernel", _PROGRAM),
    31: Meaning("a kernel accessed memory that is not its own", _PROGRAM),
    43: Meaning("work was stopped because of an error in its program", _PROGRAM),
    45: Meaning("work was removed because its program ended", "Look at the errors before it."),
    46: Meaning("the GPU stopped processing", _RETURN, needs_reset=True),
    48: Meaning("an uncorrected memory error", _RETURN, needs_reset=True),
    62: Meaning("an internal microcontroller halted", _RETURN, needs_reset=True),
    63: Meaning("memory with errors is to be replaced", _RESET),
    64: Meaning("memory with errors could not be replaced", _RETURN, needs_reset=True),
    74: Meaning("an error of an NVLink", "Follow the NVLink workflow of NVIDIA's Xid catalog."),
    79: Meaning(
        "the GPU fell off the bus",
        "Restart the machine; check the GPU's power, cooling and seating.",
        needs_reset=True,
    ),
    94: Meaning("a memory error that ended one program", "Start that program again."),
    95: Meaning("a memory error that may have hit every program", _RETURN, needs_reset=True),
    119: Meaning("the GPU's system processor did not answer", _RETURN, needs_reset=True),
    120: Meaning("an error of the GPU's system processor", _RETURN, needs_reset=True),
}


def worst_of(xids: Sequence[Xid]) -> tuple[Xid, Meaning] | None:
    """Returns the latest error that needs a reset, or else the latest; None without any."""
    if not xids:
        return None
    known = [(xid, MEANINGS.get(xid.code, _OTHER)) for xid in xids]
    serious = [each for each in known if each[1].needs_reset]
    return (serious or known)[-1]
