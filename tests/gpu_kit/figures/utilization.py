"""A busy and a waiting GPU; made up."""


def gpu(utilization_percent: float | None, **changes) -> list[dict]:
    figures = {"utilization_percent": utilization_percent, "memory_others_max_bytes": None}
    return [figures | changes]


GOOD = {"loads": {"busy": gpu(98.0), "waiting": gpu(52.0)}}
FALSIFIED = {
    "loads": [
        {"loads": {"busy": gpu(98.0), "waiting": gpu(97.0)}},
        {"loads": {"busy": gpu(60.0), "waiting": gpu(10.0)}},
    ],
    "others": [{"loads": {"busy": gpu(98.0, memory_others_max_bytes=2**30), "waiting": gpu(52.0)}}],
}
UNJUDGED = {"loads": {"loads": {"busy": gpu(None), "waiting": gpu(None)}}}
