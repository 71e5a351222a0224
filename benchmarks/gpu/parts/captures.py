"""The profile that `Monitor` captures by itself: how often, how long it delays, what it shows."""

from __future__ import annotations

import inspect
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.gpu.part import Claim, Outcome, Part, Slice

STEP_S, STALL = 0.008, 0.5
FIT_S = 30.0
POINTS = 3.0
MOST_DELAY_MS = 100.0
"""Our choice: a third of a percent of the run."""


def fit(small: bool) -> dict[str, Any]:
    """Fits for half a minute under `Monitor`, with steps that wait half of their time."""
    import keras_gpukit as gpukit
    from benchmarks.gpu.producers import make
    from benchmarks.gpu.work import compiled, products_for
    from benchmarks.planted.known_times import FEATURES
    from keras_gpukit.profiling import read_profile

    model = compiled(products_for(STEP_S)(), FEATURES)
    batch_s = STEP_S / (1 - STALL)
    steps = round((1.0 if small else FIT_S) / batch_s)
    with tempfile.TemporaryDirectory() as logs:
        monitor = gpukit.Monitor(logs, verbose=0)
        model.fit(make("serial", steps, batch_s), verbose=0, callbacks=[monitor])
        summary = monitor.summary
        captures = [
            {
                "trigger": each.trigger,
                "reason": each.reason,
                "steps": each.steps,
                "held_up_ms": 1e3 * each.held_up_s,
                "bytes": each.profile_bytes,
                "stall": each.path and read_profile(Path(logs, each.path)).stall_fraction,
                "live": getattr(each, "live_stall_fraction", None),
            }
            for each in summary.captures.captures
        ]
    return {
        "automatic": "capture" in inspect.signature(gpukit.Monitor).parameters,
        "captures": captures,
        "reported": summary.input_stall_fraction,
        "none_because": getattr(summary.captures, "none_automatic_because", None),
        "wall_s": summary.throughput.wall_s,
        "overhead_us": 1e6 * (summary.overhead_s or 0.0),
    }


def judge_one(row: dict[str, Any]) -> Outcome:
    if not row["automatic"]:
        return Outcome(None, "`Monitor` captures nothing by itself")
    taken = row["captures"]
    delays = ", ".join(f"{each['held_up_ms']:.1f} ms" for each in taken) or "nothing"
    return Outcome(
        len(taken) == 1 and taken[0]["held_up_ms"] <= MOST_DELAY_MS,
        f"Profiles captured in {row['wall_s']:.0f} s: {len(taken)}. "
        f"Training was delayed by {delays}. {row['none_because'] or ''}".strip(),
    )


def judge_stall(row: dict[str, Any]) -> Outcome:
    pairs = [(each["stall"], each["live"]) for each in row["captures"]]
    known = [pair for pair in pairs if None not in pair]
    if not known:
        return Outcome(None, "no capture has both stalls")
    [(captured, live), *_] = known
    return Outcome(
        100 * abs(captured - live) <= POINTS,
        f"The capture shows a stall of {100 * captured:.1f} %, and {100 * live:.1f} % were "
        f"measured live in the same steps; the run's is {100 * (row['reported'] or 0):.1f} %.",
    )


PART = Part(
    "captures",
    "Does `Monitor` capture one profile by itself, cheaply, and does it agree?",
    {"automatic": Slice(lambda small, _: [("automatic", partial(fit, small))])},
    (
        Claim(
            "one",
            "in a fit of 30 s `Monitor` captures one profile by itself, and delays training by at "
            "most 100 ms",
            judge_one,
            ("automatic",),
        ),
        Claim(
            "stall",
            "the stall in that profile is the one measured live in the same steps, within 3 "
            "percentage points",
            judge_stall,
            ("automatic",),
        ),
    ),
)
