"""Means of both over a busy and a waiting load; made up."""

FIGURES = {
    "utilization_percent": 98.0,
    "power_watts": 600.0,
    "sm_clock_mhz": 1800.0,
    "memory_used_max_bytes": 10 * 2**30,
    "throttled_fraction": 0.1,
}


def load(utilization: float = 98.0, theirs: dict | None = None, **ours) -> dict:
    figures = FIGURES | {"utilization_percent": utilization}
    return figures | {"summary": {"gpus": [figures | ours]}} | (theirs or {})


GOOD = {"busy": load(), "waiting": load(52.0)}
FALSIFIED = {
    "utilization": [{"busy": load(utilization_percent=90.0)}],
    "loads": [{"waiting": load(98.0)}, {"busy": load(60.0)}],
    "power": [{"waiting": load(52.0, power_watts=500.0)}],
    "clock": [{"busy": load(sm_clock_mhz=900.0)}],
    "memory": [{"busy": load(memory_used_max_bytes=9 * 2**30)}],
    "throttling": [{"busy": load(throttled_fraction=0.9)}],
    "others": [{"busy": load(memory_others_max_bytes=2**30)}],
}
UNJUDGED = {
    "power": {"busy": load(theirs={"power_watts": None})},
    "loads": {"busy": load() | {"summary": {"gpus": []}}},
}
