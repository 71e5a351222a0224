"""Captures on a GPU: what they cost, and what is read from them."""

from __future__ import annotations

import gzip
import statistics
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.gpu.part import Cases, Claim, Outcome, Part, Slice

WORK_S = 0.005
STEPS = 10
COUNTED = STEPS - 2
"""The first step of a capture is not counted, nor the last."""
KEPT_STEPS = 4
ROUNDS = 5
PRODUCTS = ("float32", "TF32", "bfloat16")
MODELS = ("convolutional", "transformer")

# Our choices: what a profile is still useful with.
SUM_DIFFERENCE = 0.01
WORK_DIFFERENCE = 0.15
KERNEL_DIFFERENCE = 0.05
WITH_TENSOR_CORES, WITHOUT = 0.9, 0.05
MOST_OTHER = 0.2


def cases(small: bool, folder: Path) -> Cases:
    """Captures fits, and keeps those of the usual models as data for tests."""
    work_s, rounds = (WORK_S / 4, 1) if small else (WORK_S, ROUNDS)
    yield "cost", partial(time_captures, work_s, rounds)
    for name in PRODUCTS[-1:] if small else PRODUCTS:
        yield f"products/{name}", partial(capture_products, name, work_s)
    for name in MODELS[:1] if small else MODELS:
        yield name, partial(capture_model, name, small, folder)


def time_captures(work_s: float, rounds: int) -> dict[str, Any]:
    """Returns how long captures delay training."""
    from benchmarks.gpu.captures import costs

    return costs(work_s, STEPS, rounds)


def capture_products(name: str, work_s: float) -> dict[str, Any]:
    """Captures matrix products alone."""
    from benchmarks.gpu import captures
    from benchmarks.gpu.precisions import PRECISIONS

    with tempfile.TemporaryDirectory() as logs:
        return captures.capture_products(PRECISIONS[name], work_s, STEPS, logs)


def capture_model(name: str, small: bool, folder: Path) -> dict[str, Any]:
    """Captures one of the usual models, and keeps the profile."""
    from benchmarks.gpu import captures, models
    from benchmarks.gpu.precisions import PRECISIONS

    with tempfile.TemporaryDirectory() as logs:
        case = models.cases(small)[name]
        row = captures.capture_model(case, PRECISIONS["bfloat16"], KEPT_STEPS, logs)
        [path] = Path(logs).rglob("*.xplane.pb")
        kept = folder / f"{name}.xplane.pb.gz"
        kept.write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    return row


def judge_cost(row: dict[str, Any]) -> Outcome:
    by_hand_ms = statistics.median(sum(each) for each in row["by_hand_ms"])
    profiler_ms = statistics.median(row["profiler_ms"])
    return Outcome(
        profiler_ms <= by_hand_ms,
        f"A capture with `Profiler` delays training by {profiler_ms:.1f} ms, by hand by "
        f"{by_hand_ms:.1f} ms; the first of a process for {sum(row['first_by_hand_ms']):.0f} ms.",
    )


def judge_steps(*rows: dict[str, Any]) -> Outcome:
    steps = [row["steps"] for row in rows]
    reasons = [row["steps_unknown_because"] or row["incomplete_because"] for row in rows]
    problems = [each for row in rows for each in row["problems"]]
    wrong = "; ".join([*filter(None, reasons), *problems])
    return Outcome(
        min(steps) == COUNTED and not wrong,
        f"{', '.join(map(str, steps))} of {COUNTED} steps were found; problems: {wrong or 'none'}.",
    )


def judge_breakdown(*rows: dict[str, Any]) -> Outcome:
    if not all(row["steps"] for row in rows):
        return Outcome(False, "A profile has no steps.")
    sums = [abs(sum(row["parts_ms"].values()) / row["step_ms"] - 1) for row in rows]
    works = [abs(row["parts_ms"].get("device compute", 0) / row["work_ms"] - 1) for row in rows]
    return Outcome(
        max(sums) <= SUM_DIFFERENCE and max(works) <= WORK_DIFFERENCE,
        f"The parts add up to the step's time within {100 * max(sums):.1f} %, and device compute "
        f"is the time of the products within {100 * max(works):.1f} %.",
    )


def judge_kernels(*rows: dict[str, Any]) -> Outcome:
    """The longest kernel takes about all of the products' time."""
    found = []
    for row in rows:
        if not row["kernels"]:
            return Outcome(False, "A profile has no kernel.")
        kernel = row["kernels"][0]
        if (theirs_ms := row["xprof"]["kernels_ms"].get(kernel["name"])) is None:
            return Outcome(False, f"xprof does not list {kernel['name']}.")
        found.append(abs(kernel["mean_ms"] / theirs_ms - 1))
    return Outcome(
        max(found) <= KERNEL_DIFFERENCE,
        f"The longest kernel's mean time differs from xprof's by at most {100 * max(found):.1f} %.",
    )


def judge_tensor_cores(without: dict[str, Any], with_them: dict[str, Any]) -> Outcome:
    shares, names = [], []
    for row in (without, with_them):
        products = [kernel for kernel in row["kernels"] if kernel["kind"] == "matmul"]
        if not products or row["tensor_core_fraction"] is None:
            return Outcome(None, "the share of Tensor Cores is unknown")
        in_them = sum(kernel["share"] for kernel in products if kernel["tensor_core"])
        shares.append(in_them / sum(kernel["share"] for kernel in products))
        names.append(products[0]["name"])
    theirs = with_them["xprof"]["tensor_core_fraction"] or 0
    return Outcome(
        shares[0] <= WITHOUT and shares[1] >= WITH_TENSOR_CORES,
        f"Of the products' time {100 * shares[0]:.0f} % is in Tensor Cores in float32 "
        f"({names[0]}), {100 * shares[1]:.0f} % in bfloat16 ({names[1]}; xprof says of all kernels "
        f"{100 * theirs:.0f} %).",
    )


def judge_kinds(*rows: dict[str, Any]) -> Outcome:
    message, holds = [], True
    for model, row in zip(MODELS, rows, strict=True):
        compute_ms = sum(row["kinds_ms"].values())
        other = row["kinds_ms"].get("other", 0) / compute_ms if compute_ms else 1.0
        largest = max(row["kinds_ms"], key=lambda kind: row["kinds_ms"][kind], default="none")
        message.append(f"{model} {100 * other:.0f} % (most is {largest})")
        holds &= other <= MOST_OTHER
    return Outcome(holds, f"Of an unknown kind: {', '.join(message)}.")


RUNS = tuple(f"products/{name}" for name in PRODUCTS)
PART = Part(
    "profiles",
    "Are captures on a GPU complete, cheap and read rightly?",
    {"all": Slice(cases)},
    (
        Claim(
            "cost",
            "`Profiler` delays training no longer than TensorFlow's own start and stop",
            judge_cost,
            ("cost",),
        ),
        Claim(
            "steps",
            "of 10 captured steps 8 are found, without a problem: the first and the last are not "
            "counted",
            judge_steps,
            RUNS,
        ),
        Claim(
            "breakdown",
            "the parts of a step add up to its time, and device compute is the time of the matrix "
            "products as measured without a profile, within 15 %",
            judge_breakdown,
            RUNS,
        ),
        Claim(
            "kernels",
            "the longest kernel takes as long as xprof says, within 5 %",
            judge_kernels,
            RUNS,
        ),
        Claim(
            "tensor_cores",
            "by the kernels' names, at least 90 % of the time of bfloat16 products is in Tensor "
            "Cores, and at most 5 % of that of float32 ones without TensorFloat-32",
            judge_tensor_cores,
            ("products/float32", "products/bfloat16"),
        ),
        Claim(
            "kinds",
            "by the kernels' names, at most 20 % of a convolutional model's and of a transformer's "
            "time is of an unknown kind",
            judge_kinds,
            MODELS,
        ),
    ),
)
