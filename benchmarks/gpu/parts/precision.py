"""How fast three models train in each precision, and whether they learn alike."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.gpu.judging import error_of
from benchmarks.gpu.part import Claim, Measured, Outcome, Part, attempt

MODELS = ("dense", "convolutional", "transformer")
NAMES = ("float32", "TF32", "bfloat16", "float16")
RUNS = tuple(
    f"{model}/{name}/{compiler}"
    for compiler, model, name in product(("graph", "jit"), MODELS, NAMES)
)
SMALL = (
    "dense/float32/graph",
    "dense/bfloat16/jit",
    "convolutional/float16/graph",
    "transformer/TF32/graph",
)

SLOWER = 1.03
"""How many times as long a step with TF32 may take: measurements differ by about that much."""
ABOVE_CEILING = 1.05
DENSE_SHARE = 0.5
"""Of the ceiling, for a model that only multiplies matrices; our choice."""
LOSS_DIFFERENCE = 0.05
"""Mean difference of two loss curves, as a share of the first loss; our choice."""


def measure(small: bool, folder: Path) -> Iterator[tuple[str, Any]]:
    """Measures the ceilings, what the rule promises, and then trains."""
    from benchmarks.gpu.models import cases
    from benchmarks.gpu.precisions import PRECISIONS, ceiling, promise, train

    for name in NAMES:
        yield f"ceiling/{name}", ceiling(PRECISIONS[name], small=small)
    models = cases(small)
    for name in ("float32", "TF32"):
        yield f"promise/{name}", attempt(promise, models["dense"], PRECISIONS[name])
    for run in SMALL if small else RUNS:
        model, name, compiler = run.split("/")
        yield run, attempt(train, models[model], PRECISIONS[name], jit=compiler == "jit")


def trained(measured: Measured) -> dict[str, Any]:
    """Returns the runs that ended well."""
    return {run: measured[run] for run in RUNS if run in measured and not error_of(measured[run])}


def gains(measured: Measured, slow: str, fast: str) -> dict[str, float]:
    """Returns how many times as fast each model trains in one precision as in another."""
    rows = trained(measured)
    found = {}
    for run, row in rows.items():
        model, name, compiler = run.split("/")
        if name == slow and (other := rows.get(f"{model}/{fast}/{compiler}")):
            found[f"{model}, {compiler}"] = row["step_ms"] / other["step_ms"]
    return found


def shares(measured: Measured) -> dict[str, float]:
    """Returns what part of the rate that the ceilings allow each run reached.

    Convolutions are left out: there are algorithms with fewer operations (Winograd).
    """
    found = {}
    for run, row in trained(measured).items():
        model, name, _ = run.split("/")
        limits = measured.get(f"ceiling/{name}")
        if limits and model != "convolutional":
            least_s = max(
                row["operations"] / limits["operations_per_s"], row["bytes"] / limits["bytes_per_s"]
            )
            found[run] = least_s / (row["step_ms"] / 1e3)
    return found


def differences(measured: Measured) -> dict[str, float]:
    """Returns by how much loss curves differ from those of float32, as a share of the first."""
    rows = trained(measured)
    found = {}
    for run, row in rows.items():
        reference = rows.get(f"{run.split('/')[0]}/float32/graph")
        if reference and row is not reference:
            pairs = zip(row["losses"], reference["losses"], strict=True)
            mean = statistics.fmean(abs(one - other) for one, other in pairs)
            found[run] = mean / reference["losses"][0]
    return found


def verdict(holds: bool, *, complete: bool) -> bool | None:
    """Returns what may be said of all cases; one is enough to falsify."""
    return True if holds and complete else None if holds else False


def gain_outcome(measured: Measured, slow: str, fast: str, least: float) -> Outcome:
    """Judges whether every model gains from a precision."""
    if not (found := gains(measured, slow, fast)):
        return Outcome(None, f"no model was trained in both {slow} and {fast}")
    low, high = min(found, key=found.__getitem__), max(found, key=found.__getitem__)
    return Outcome(
        verdict(found[low] > least, complete=len(found) == 2 * len(MODELS)),
        f"In {len(found)} of {2 * len(MODELS)} cases, {fast} trains {found[low]:.2f}× ({low}) to "
        f"{found[high]:.2f}× ({high}) as fast as {slow}.",
    )


def promise_outcome(measured: Measured) -> Outcome:
    """Judges whether the ratio that the finding rests on is an upper bound."""
    said, holds = [], True
    for name in ("float32", "TF32"):
        promised = measured.get(f"promise/{name}", {}).get("gain")
        found = gains(measured, name, "bfloat16")
        if promised is not None and found:
            said.append(f"{promised:g}× promised over {name}, {max(found.values()):.2f}× measured")
            holds &= max(found.values()) <= promised
    if not said:
        return Outcome(None, "no finding promised a gain that was measured")
    return Outcome(holds, f"At most {'; '.join(said)}.")


def ceiling_outcome(measured: Measured) -> Outcome:
    """Judges whether the shares of the ceilings are possible, and the dense model's is high."""
    found = shares(measured)
    if not (dense := found.get("dense/float32/graph")):
        return Outcome(None, "the dense model was not trained in float32")
    highest = max(found, key=found.__getitem__)
    return Outcome(
        found[highest] <= ABOVE_CEILING and dense >= DENSE_SHARE,
        f"The dense model reaches {100 * dense:.0f} % of its ceiling in float32; the highest share "
        f"is {100 * found[highest]:.0f} % ({highest}).",
    )


def loss_outcome(measured: Measured) -> Outcome:
    """Judges whether the loss curves agree."""
    if not (found := differences(measured)):
        return Outcome(None, "no model was trained in float32 and another precision")
    worst = max(found, key=found.__getitem__)
    return Outcome(
        verdict(found[worst] <= LOSS_DIFFERENCE, complete=len(trained(measured)) == len(RUNS)),
        f"{len(found)} loss curves differ from float32 by at most {100 * found[worst]:.2f} % of "
        f"the first loss ({worst}).",
    )


def judge(measured: Measured) -> dict[str, Outcome]:
    """Judges gains, shares of the ceilings, and loss curves."""
    return {
        "bfloat16": gain_outcome(measured, "float32", "bfloat16", 1.0),
        "tf32": gain_outcome(measured, "float32", "TF32", 1 / SLOWER),
        "promise": promise_outcome(measured),
        "ceilings": ceiling_outcome(measured),
        "losses": loss_outcome(measured),
    }


PART = Part(
    name="precision",
    question="How fast do models train in each precision, and do they learn alike?",
    minutes=5,
    claims=(
        Claim(
            "bfloat16",
            "dense, convolutional and transformer models train faster in mixed bfloat16 than in "
            "float32 without TensorFloat-32, with and without jit",
            "a model that trains as slowly or slower",
        ),
        Claim(
            "tf32",
            "TensorFloat-32 slows none of them down",
            "a step that takes over 3 % longer than without",
        ),
        Claim(
            "promise",
            "no model gains more from mixed bfloat16 than the finding about float32 promises",
            "a larger gain",
        ),
        Claim(
            "ceilings",
            "no dense model or transformer exceeds the measured rates of matrix products and of "
            "copies, and the dense one reaches at least half of them in float32",
            "a share above 105 %, or below 50 % for the dense model",
        ),
        Claim(
            "losses",
            "in every precision, with and without jit, the loss curve differs from that of float32 "
            "by at most 5 % of the first loss on average",
            "a curve that differs more",
        ),
    ),
    measure=measure,
    judge=judge,
)
