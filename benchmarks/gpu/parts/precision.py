"""What three models gain from mixed precision, and what the finding about float32 promises."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.gpu.part import Cases, Claim, Measured, Outcome, Part, Slice, error_of

MODELS = ("dense", "convolutional", "transformer")
NAMES = ("float32", "TF32", "bfloat16")
RUNS = tuple(f"{model}/{name}" for model in MODELS for name in NAMES)
SMALL = ("dense/float32", "dense/bfloat16")


def cases(small: bool, folder: Path) -> Cases:
    """Measures what the rule promises, then trains."""
    for name in ("float32", "TF32"):
        yield f"promise/{name}", partial(call, "promise", "dense", name, small)
    for run in SMALL if small else RUNS:
        yield run, partial(call, "train", *run.split("/"), small)


def call(function: str, model: str, name: str, small: bool) -> Any:
    """Calls a function of `precisions`."""
    from benchmarks.gpu import models, precisions

    chosen: Callable[..., Any] = getattr(precisions, function)
    return chosen(models.cases(small)[model], precisions.PRECISIONS[name])


def gains(measured: Measured, slow: str, fast: str) -> dict[str, float]:
    """Returns by which factor each model trains faster in one precision as in another."""
    found = {}
    for model in MODELS:
        rows = [measured.get(f"{model}/{name}", {"error": ""}) for name in (slow, fast)]
        if not any(error_of(row) is not None for row in rows):
            found[model] = rows[0]["step_ms"] / rows[1]["step_ms"]
    return found


def gain_outcome(measured: Measured) -> Outcome:
    """Judges whether every model gains from bfloat16."""
    if not (found := gains(measured, "float32", "bfloat16")):
        return Outcome(None, "no model was trained in both float32 and bfloat16")
    holds = min(found.values()) > 1
    return Outcome(
        None if holds and len(found) < len(MODELS) else holds,
        f"bfloat16 trains {', '.join(f'{model} {gain:.2f}×' for model, gain in found.items())} as "
        "fast as float32.",
    )


def promise_outcome(measured: Measured) -> Outcome:
    """Judges whether the ratio that the finding rests on is an upper bound."""
    message, holds = [], True
    for name in ("float32", "TF32"):
        promised = measured.get(f"promise/{name}", {}).get("gain")
        found = gains(measured, name, "bfloat16")
        if promised is not None and found:
            message.append(
                f"{promised:g}× promised over {name}, {max(found.values()):.2f}× measured"
            )
            holds &= max(found.values()) <= promised
    if not message:
        return Outcome(None, "no finding promised a gain that was measured")
    return Outcome(holds, f"At most {'; '.join(message)}.")


PART = Part(
    "precision",
    "What do models gain from mixed precision?",
    {"all": Slice(cases)},
    (
        Claim(
            "bfloat16",
            "dense, convolutional and transformer models train faster in mixed bfloat16 than in "
            "float32 without TensorFloat-32",
            gain_outcome,
        ),
        Claim(
            "promise",
            "no model gains more from mixed bfloat16 than the finding about float32 promises",
            promise_outcome,
        ),
    ),
)
