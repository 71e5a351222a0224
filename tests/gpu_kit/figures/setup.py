"""Cases on one GPU of 16 GiB, with sizes in units of 1 GiB; made up."""

GIB = 2**30
GPU = {"name": "GPU", "compute_capability": [8, 0], "total_bytes": 16 * GIB}
SMALLER = {"1": True, "1.5": True, "3": True}


def case(added: float, **changes) -> dict:
    return {
        "warnings": [],
        "logical_gpus": 1,
        "added_bytes": {"GPU-1": int(added * GIB)},
        "gpus": {"GPU-1": GPU},
        "dtype_policy": "mixed_bfloat16",
        "fits": [SMALLER],
        "allocator": "GPU_0_bfc",
        "named_uuids": ["GPU-1"],
        "grew_uuids": ["GPU-1"],
        "unit": GIB,
    } | changes


def limit(added: float = 2.8, *, larger: bool = False) -> dict:
    return case(added, fits=[{"1": True, "1.5": True, "3": larger}])


def logical(*fits: bool) -> dict:
    return case(3.8, logical_gpus=len(fits), fits=[{"1": True, "1.5": each} for each in fits])


GOOD = {
    "growth": case(0.8),
    "logical": logical(False, True),
    "all": case(15.5),
    "limit": limit(),
    "async": case(0.8, allocator="gpu_async_0"),
    "reversed": case(0.8, named_uuids=["GPU-1", "GPU-0"], grew_uuids=["GPU-1", "GPU-0"]),
}
FALSIFIED = {
    "growth": [{"growth": case(15.5)}],
    "all": [{"all": case(0.8)}],
    "limit": [{"limit": limit(15.5)}, {"limit": limit(1.0)}, {"limit": limit(larger=True)}],
    "logical": [{"logical": logical(True)}, {"logical": logical(True, True)}],
    "handles": [
        {"reversed": case(0.8, named_uuids=["GPU-0", "GPU-1"], grew_uuids=["GPU-1", "GPU-0"])},
        {"growth": case(0.8, named_uuids=[None])},
        {"growth": case(0.8, named_uuids=[])},
    ],
    "allocator": [{"async": case(0.8)}, {"async": case(0.8, allocator=None)}],
    "precision": [{"growth": case(0.8, dtype_policy="float32")}],
    "as_asked": [{"all": case(15.5, warnings=["TensorFlow does not have it."])}],
}
TAKEN = {name: GOOD[name] | {"grew_uuids": [None]} for name in ("growth", "logical")}
UNJUDGED = {
    "growth": {"growth": {"error": "it failed"}},
    "handles": TAKEN | {"reversed": case(0.8, grew_uuids=[None])},
}
