"""Parts of a run's summary, made up; by default, of a fit in which nothing is wrong."""

from typing import Any

from keras_gpukit.records import InputRecord, ThroughputRecord, TimeBreakdown

PARTS = ("input_s", "callbacks_s", "epoch_start_s", "first_step_s", "validation_s", "other_s")


def breakdown(wall_s: float = 100.0, **parts: Any) -> TimeBreakdown:
    """The time of a run: that of some parts, and for the rest compute."""
    known: dict[str, Any] = dict.fromkeys(PARTS, 0.0) | parts
    others_s = sum(spent or 0.0 for name, spent in known.items() if name.endswith("_s"))
    return TimeBreakdown(wall_s, **{"compute_s": wall_s - others_s, **known})


def throughput(step_time_s: float = 0.01, steps: int = 1000, **more: Any) -> ThroughputRecord:
    """The speed of a fit, of which all steps were measured."""
    return ThroughputRecord("fit", steps, steps, step_time_s, **{"examples_per_s": None, **more})


def stall(
    fraction: float, confidence: Any = "exact", steps: int = 1000, **rest: Any
) -> InputRecord:
    """The input of a fit that waits for a share of its steps' time, 10 ms a step."""
    known = {"wait_s": 0.01, "stall_fraction": fraction, **rest}
    return InputRecord("fit", confidence=confidence, measured_steps=steps, **known)
