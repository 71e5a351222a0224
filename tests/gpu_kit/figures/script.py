"""A script that saves 10 s of 20 s by the change; made up."""


def run(wall_s: float, **finding) -> dict:
    promise = {"code": "input-bound", "low_s": 9.0, "high_s": 12.0, "of_s": 20.0} | finding
    return {"wall_s": wall_s, "step_ms": wall_s, "reported": 0.6, "findings": [promise]}


GOOD = {"as written": run(20.0), "as advised": run(10.0)}
FALSIFIED = {
    "first": [{"as written": run(20.0, code="low-utilization")}],
    "promise": [{"as advised": run(15.0)}, {"as advised": run(5.0)}],
}
UNJUDGED = {
    # Runs differ by more than such a promise.
    "promise": {"as written": run(20.0, low_s=0.4, high_s=0.6), "as advised": run(20.5)},
    "first": {"as written": {"error": "it failed"}},
}
