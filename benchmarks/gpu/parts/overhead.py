"""What `Monitor` costs a step of a GPU, in fits with and without it by turns."""

from __future__ import annotations

import statistics
import tempfile
import time
from functools import partial
from typing import Any

from benchmarks.gpu.part import Cases, Outcome, Part

FITS = {"long step": (4.5e-3, 16, 1.01), "short step": (0.1e-3, 8, 1.05)}
"""Work of the GPU in seconds, to which Keras adds a few tenths of a millisecond; rounds; and the
limit of the ratio. That of the short step is our choice: most of such a step is Python's."""
RUN_S = 0.4
WARM_UP = 30
"""Steps before the timed ones: files are opened, and readings come more often."""
PART = Part("overhead", "What does `Monitor` cost a step?")


@PART.slice("all", 60)
def cases(small: bool) -> Cases:
    """Compares fits of two models."""
    for name, (work_s, rounds, _) in FITS.items():
        yield name, partial(compare, work_s, *((2, 0.02) if small else (rounds, RUN_S)))


def compare(work_s: float, rounds: int, run_s: float) -> dict[str, Any]:
    """Times fits of a model, bare twice and with `Monitor` once a round, in random order."""
    import keras

    import keras_gpukit as gpukit
    from benchmarks.gpu.models import compiled, products_for
    from benchmarks.harness import in_turns
    from benchmarks.planted.known_times import FEATURES, ready

    class Clock(keras.callbacks.Callback):
        """Times the steps after the warm-up."""

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            if batch == WARM_UP:
                self.started_s = time.perf_counter()

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.ended_s = time.perf_counter()

    model = compiled(products_for(work_s)(), FEATURES)
    batches = ready(32).cache().repeat()

    def timed_s(steps: int, *callbacks: keras.callbacks.Callback) -> float:
        clock, data = Clock(), batches.take(WARM_UP + steps).prefetch(4)
        model.fit(data, verbose=0, callbacks=[*callbacks, clock])
        return clock.ended_s - clock.started_s

    timed_s(WARM_UP)  # traces
    steps = max(10, round(run_s * WARM_UP / timed_s(WARM_UP)))

    def monitored_s() -> float:
        with tempfile.TemporaryDirectory() as logs:
            return timed_s(steps, gpukit.Monitor(logs, verbose=0))

    monitored_s()  # loads what it needs
    variants = {name: partial(timed_s, steps) for name in ("bare_s", "bare_again_s")}
    return {"steps": steps, **in_turns({**variants, "monitored_s": monitored_s}, rounds)}


def ratio_outcome(row: dict[str, Any], name: str) -> Outcome:
    """Judges the ratios of monitored to bare fits, if their interval is on one side of a limit."""
    from keras_gpukit.tuning.measured_rates import median_interval

    bare = map(statistics.fmean, zip(row["bare_s"], row["bare_again_s"], strict=True))
    ratios = [one / mean for one, mean in zip(row["monitored_s"], bare, strict=True)]
    (low, high), limit = median_interval(ratios), FITS[name][2]
    step_ms = 1e3 * statistics.median(row["bare_s"]) / row["steps"]
    evidence = (
        f"On a {step_ms:.2f} ms step the ratio is {statistics.median(ratios):.4f} "
        f"(95 % interval {low:.4f} to {high:.4f})"
    )
    if low <= limit < high:
        return Outcome(None, f"{evidence}: too noisy for a limit of {limit}.")
    return Outcome(high <= limit, f"{evidence}.")


for _name, _expected in {
    "long step": "a step of 5 ms takes at most 1 % longer with `Monitor`",
    "short step": "a step of about 0.5 ms takes at most 5 % longer with `Monitor`",
}.items():
    PART.claim(_expected, _name, name=_name)(partial(ratio_outcome, name=_name))
