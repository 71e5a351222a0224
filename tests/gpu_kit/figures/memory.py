"""Fits with planted tensors of 2 and 3 units of 2 GiB; made up."""

GIB = 2**30


def planted(**changes) -> dict:
    figures = {
        "base": reading(0.1, 0.2),
        "held": reading(4.1, 4.2),
        "spike": reading(4.1, 10.2),
        "kept_peak": reading(4.1, 10.2),
        "after": reading(4.1, 4.2),
        "first_step": first_step(10.2, 4.2),
        "unit": 2 * GIB,
        "added_bytes": {"GPU-1": 16 * GIB},
        "reading_us": 2.0,
        "readings_end_s": 0.01,
        "products_end_s": 1.0,
    }
    return {"planted": figures | changes}


def first_step(first: float, later: float | None) -> dict:
    return {"first": int(first * GIB), "later": None if later is None else int(later * GIB)}


def reading(current: float, peak: float) -> dict:
    return {"current": int(current * GIB), "peak": int(peak * GIB)}


ENDED = {"too_large": "ResourceExhaustedError", "then": None}
GOOD = planted() | {"out_of_memory": ENDED}
FALSIFIED = {
    "held": [planted(held=reading(4.3, 4.3)), planted(held=reading(0.1, 4.2))],
    "peak": [planted(spike=reading(4.1, 4.2)), planted(spike=reading(4.1, 10.5))],
    "reset": [planted(after=reading(4.1, 10.2)), planted(kept_peak=reading(4.1, 4.2))],
    "nvml": [planted(added_bytes={"GPU-1": 9 * GIB}), planted(added_bytes={"GPU-1": 30 * GIB})],
    "reading": [planted(reading_us=400.0)],
    "first_step": [
        planted(first_step=first_step(4.2, 4.2)),
        planted(first_step=first_step(10.2, 10.2)),
        planted(first_step=first_step(10.2, None)),
    ],
    "out_of_memory": [
        {"out_of_memory": ENDED | {"too_large": "ValueError"}},
        {"out_of_memory": ENDED | {"then": "ResourceExhaustedError"}},
    ],
}
UNJUDGED = {"reading": planted(reading_us=400.0, products_end_s=0.01)}
