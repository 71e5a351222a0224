"""Fits of 10 ms steps, of which the GPU idles 1 ms in any case; made up."""

from benchmarks.gpu.parts.stall import WAYS


def fit(stall: float, reported: float | None = None, **changes) -> dict:
    """A fit that stalls for a fraction of the step."""
    step_ms = 10 / (1 - stall)
    return {
        "reported": stall if reported is None else reported,
        "step_ms": step_ms,
        "idle_ms": 1 + stall * step_ms,
        "idle_while_fetching": stall,
        **changes,
    }


GOOD = {
    **{f"{way}/ready": fit(0.0) for way in WAYS},
    **{
        f"{way}/{name} {percent}": fit(percent / 100)
        for way, (cases, _) in WAYS.items()
        for name, percent in cases
    },
    "1 step/transferred": fit(0.0),
    "1 step/generator 50": fit(0.5, idle_ms=16.0),  # contention
    "8 steps/serial 25": fit(0.25, reported=0.2, most=0.3),
}
UNKNOWN = {**fit(0.5), "reported": None}
FALSIFIED = {
    **{way: [{f"{way}/serial 50": UNKNOWN}] for way in WAYS},
    "8 steps": [
        {"8 steps/bursty 50": fit(0.5, reported=0.56)},
        {"8 steps/bursty 50": fit(0.5, reported=0.2, most=0.44)},
    ],
    "1 step": [{"1 step/pydataset 50": fit(0.5, reported=0.46)}, {"1 step/generator 50": UNKNOWN}],
    "ready": [{"1 step/transferred": fit(0.0, reported=0.02)}],
}
UNJUDGED = {"1 step": {"1 step/pydataset 50": {"error": "it crashed"}}}
