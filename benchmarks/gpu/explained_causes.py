"""Planted for `explained_placement`, and judges of what is reported of it; no TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.gpu.part import Outcome, error_of

EXAMPLES, WIDE, NARROW = 64, 2048, 1024
"""A batch, and the inputs and outputs of the planted layer."""
CAUSES = {
    "no_such_device": ("Softplus", "no such device"),
    "variable_elsewhere": ("ReadVariableOp", "variable elsewhere"),
    "compiled": ("Softplus", "compiled"),
}
"""What each model has that is not where it was asked to be, or not on the GPU, and why."""
FLOAT_BYTES = 4
COPIED = {
    "weights": FLOAT_BYTES * WIDE * NARROW,
    "batch": FLOAT_BYTES * EXAMPLES * WIDE,
}
"""What goes to the GPU in each step where the weights are on the CPU."""

Judge = Callable[[dict[str, Any]], Outcome]


def explained(judge: Judge) -> Judge:
    """Judges what is reported of the planted causes, if that did not fail."""

    def judge_one(reported: dict[str, Any]) -> Outcome:
        found = reported["explained"]
        if error := error_of(found):
            return Outcome(None, f"measuring the planted causes failed: {error}")
        return judge(found)

    return judge_one


def judge_cause(name: str) -> Judge:
    """Returns the judge of one cause."""
    operation, cause = CAUSES[name]

    @explained
    def judge_one(found: dict[str, Any]) -> Outcome:
        causes = found[name]["causes"]
        message = ", ".join(sorted({each or "no cause" for each in causes})) or "nothing"
        return Outcome(cause in causes, f"For {operation} it reports: {message}.")

    return judge_one


@explained
def judge_bytes(found: dict[str, Any]) -> Outcome:
    """Whether the sizes of what is copied are those of the tensors."""
    sizes = [size for each in _to_gpu(found) for _, size in each["largest"]]
    unknown = sum(each["unknown"] for each in _to_gpu(found))
    missing = [name for name, size in COPIED.items() if size not in sizes]
    listed = ", ".join(f"{size:,}" for size in sizes) or "nothing"
    return Outcome(
        not missing and not unknown,
        f"Copied to the GPU in a step: {listed} B, and {unknown} of unknown size; "
        f"{', '.join(missing) or 'nothing'} is missing.",
    )


@explained
def judge_profile(found: dict[str, Any]) -> Outcome:
    """Whether a profile shows as many bytes."""
    in_profile = found["profile"]
    if in_profile is None:
        return Outcome(None, "the profile shows no copies to the GPU")
    listed = sum(each["bytes"] or 0 for each in _to_gpu(found))
    return Outcome(
        abs(listed - in_profile) <= 0.05 * in_profile,
        f"{listed:,} B are listed in a step, and the profile has {in_profile:,.0f} B.",
    )


def _to_gpu(found: dict[str, Any]) -> list[dict[str, Any]]:
    copies = found["variable_elsewhere"]["copies"] or []
    return [each for each in copies if each["target"].startswith("GPU")]
