"""Fits of 10 ms steps, of which the GPU idles 1 ms in any case; made up."""

from benchmarks.gpu.parts.stall import CASES, FEW, JIT_WAYS, WAYS


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


LAUNCHES = {
    "findings": ["tiny-steps"],
    "reported": 0.002,
    "step_ms": 1.5,
    "idle": 0.6,
    "parts_ms": {"device compute": 0.6, "kernel launch": 0.8, "idle": 0.1},
}
GOOD = {
    **{f"{way}/ready": fit(0.0) for way in WAYS | JIT_WAYS},
    **{f"{way}/{name} {percent}": fit(percent / 100) for way in WAYS for name, percent in CASES},
    **{f"{way}/{name} {percent}": fit(percent / 100) for way in JIT_WAYS for name, percent in FEW},
    **{
        f"{way}/serial {percent} to device": fit(percent / 100)
        for way in WAYS
        for percent in (0, 50)
    },
    "1 step/transferred": fit(0.0),
    "launches": LAUNCHES,
}
UNKNOWN = {**fit(0.5), "reported": None}
FALSIFIED = {
    "one_step": [
        {"1 step/decode 50": fit(0.5, reported=0.46)},
        {"1 step/generator 50": UNKNOWN},
    ],
    "one_step_jit": [{"1 step, jit/serial 50": fit(0.5, reported=0.54)}],
    "eight_steps": [{"8 steps/bursty 50": fit(0.5, reported=0.56)}],
    "eight_steps_jit": [{"8 steps, jit/serial 50": UNKNOWN}],
    "to_device": [{"1 step/serial 50 to device": UNKNOWN}],
    "ready": [{"1 step/transferred": fit(0.0, reported=0.02)}],
    "above_ready": [{"1 step/generator 50": fit(0.5, idle_ms=16.0)}],
    "profile_reading": [{"8 steps/copy 50": fit(0.5, idle_while_fetching=0.4)}],
    "launch_bound": [
        {"launches": LAUNCHES | {"findings": []}},
        {"launches": LAUNCHES | {"findings": ["tiny-steps", "input-bound"]}},
        {"launches": LAUNCHES | {"reported": 0.3}},
    ],
}
UNJUDGED = {
    "one_step": {name: {"error": "it failed"} for name in GOOD if name.startswith("1 step")},
    "launch_bound": {"launches": LAUNCHES | {"idle": 0.1}},
}
