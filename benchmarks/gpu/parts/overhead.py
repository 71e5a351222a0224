"""What `Monitor` costs a step of a GPU, in fits with and without it by turns."""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.gpu.part import Cases, Claim, Outcome, Part, Slice

WORK_S = {"long step": 4.5e-3, "short step": 0.1e-3}
"""Of the GPU; Keras adds a few tenths of a millisecond to each step."""
RUN_S = 0.4
ROUNDS = {"long step": 16, "short step": 8}
WARM_UP = 30
"""Steps before the timed ones: files are opened, and readings come more often."""

LIMITS = {"long step": 1.01, "short step": 1.05}
"""Of the ratio. That of the short step is our choice: most of such a step is Python's."""
HONEST = 2.0
"""How many times the overhead that `Monitor` reports the measured one may be."""


def cases(small: bool, folder: Path) -> Cases:
    """Compares fits of two models."""
    for name, work_s in WORK_S.items():
        rounds, run_s = (2, 0.02) if small else (ROUNDS[name], RUN_S)
        yield name, partial(compare, work_s, rounds, run_s)


def compare(work_s: float, rounds: int, run_s: float) -> dict[str, Any]:
    """Times fits of a model, bare twice and with `Monitor` once a round, in random order."""
    import keras

    import keras_gpukit as gpukit
    from benchmarks.gpu.work import compiled, products_for
    from benchmarks.harness import in_turns
    from benchmarks.planted.known_times import FEATURES, ready

    class Clock(keras.callbacks.Callback):
        """Times the steps after the warm-up."""

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            if batch == WARM_UP:
                self.began_s = time.perf_counter()

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.ended_s = time.perf_counter()

    model = compiled(products_for(work_s)(), FEATURES)
    batches = ready(32).cache().repeat()

    def timed_s(steps: int, *callbacks: keras.callbacks.Callback) -> float:
        clock, data = Clock(), batches.take(WARM_UP + steps).prefetch(4)
        model.fit(data, verbose=0, callbacks=[*callbacks, clock])
        return clock.ended_s - clock.began_s

    timed_s(WARM_UP)  # traces
    steps = max(10, round(run_s * WARM_UP / timed_s(WARM_UP)))
    own_us: list[float] = []

    def monitored_s() -> float:
        with tempfile.TemporaryDirectory() as logs:
            monitor = gpukit.Monitor(logs, verbose=0)
            duration_s = timed_s(steps, monitor)
        own_us.append(1e6 * monitor.summary.overhead_s)
        return duration_s

    monitored_s()  # loads what it needs
    own_us.clear()
    variants = {
        "bare_s": lambda: timed_s(steps),
        "bare_again_s": lambda: timed_s(steps),
        "monitored_s": monitored_s,
    }
    return {"steps": steps, "own_us": own_us, **in_turns(variants, rounds)}


def ratios(row: dict[str, Any]) -> list[float]:
    """Returns each round's time over the mean of its bare ones."""
    bare = map(statistics.fmean, zip(row["bare_s"], row["bare_again_s"], strict=True))
    return [one / mean for one, mean in zip(row["monitored_s"], bare, strict=True)]


def interval(values: Sequence[float]) -> tuple[float, float]:
    from keras_gpukit.tuning.measuring import median_interval

    return median_interval(values)


def ratio_outcome(row: dict[str, Any], limit: float) -> Outcome:
    """Judges the ratio if its interval lies on one side of the limit."""
    low, high = interval(ratios(row))
    ratio = statistics.median(ratios(row))
    step_ms = 1e3 * statistics.median(row["bare_s"]) / row["steps"]
    evidence = (
        f"On a {step_ms:.2f} ms step the ratio is {ratio:.4f} "
        f"(95 % interval {low:.4f} to {high:.4f})"
    )
    if low <= limit < high:
        return Outcome(None, f"{evidence}: too noisy for a limit of {limit}.")
    most = max(1, math.ceil(100 * (high - 1)))
    headline = f"`Monitor` added less than {most} % to a step of {step_ms:.1f} ms"
    return Outcome(high <= limit, f"{evidence}.", headline)


def own_account_outcome(row: dict[str, Any]) -> Outcome:
    """Judges whether `Monitor` knows what it costs."""
    step_us = 1e6 * statistics.median(row["bare_s"]) / row["steps"]
    low, high = (step_us * (ratio - 1) for ratio in interval(ratios(row)))
    own_us = statistics.median(row["own_us"])
    return Outcome(
        low <= HONEST * own_us,
        f"`Monitor` reports {own_us:.0f} µs per step, and adds {low:.0f} to {high:.0f} µs.",
    )


PART = Part(
    "overhead",
    "What does `Monitor` cost a step?",
    {"all": Slice(cases, 60)},
    (
        Claim(
            "five_ms",
            "a step of 5 ms takes at most 1 % longer with `Monitor`",
            partial(ratio_outcome, limit=LIMITS["long step"]),
            ("long step",),
        ),
        Claim(
            "half_ms",
            "a step of about 0.5 ms takes at most 5 % longer with `Monitor`",
            partial(ratio_outcome, limit=LIMITS["short step"]),
            ("short step",),
        ),
        Claim(
            "own_account",
            "`Monitor` reports at least half of the time that it adds to a short step",
            own_account_outcome,
            ("short step",),
        ),
    ),
)
