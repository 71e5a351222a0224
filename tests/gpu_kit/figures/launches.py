"""A model that waits for launches: 4 ms a step, 1 ms with jit; made up."""


def finding(code: str, low_s: float | None = None, high_s: float | None = None) -> dict:
    return {"code": code, "low_s": low_s, "high_s": high_s, "of_s": low_s and 24.0}


def run(step_ms: float, *findings: dict, reported: float = 0.002) -> dict:
    return {"steps": 6000, "step_ms": step_ms, "reported": reported, "findings": list(findings)}


PROMISE = finding("launch-bound", 15.0, 20.0)
GOOD = {
    "plain": run(4.0, PROMISE),
    "idle": {"idle": 0.9, "parts_ms": {}},
    "jit": run(1.0),
    "8 steps": run(2.0),
}
FALSIFIED = {
    "named": [
        {"plain": run(4.0, finding("low-utilization"))},
        {"plain": run(4.0, PROMISE, finding("input-bound"))},
        {"plain": run(4.0, PROMISE, reported=0.3)},
    ],
    "promise": [{"jit": run(3.9), "8 steps": run(3.8)}, {"jit": run(0.1)}],
}
UNJUDGED = {
    "named": {"idle": {"idle": 0.1, "parts_ms": {}}},
    "promise": {"plain": run(4.0, finding("launch-bound"))},
}
