"""What `DevicePlacement` could report of each model; made up."""

FOUND = {
    "strings": ["AsString", "no kernel"],
    "int32_product": ["MatMul", "dtype"],
    "python": ["EagerPyFunc", "host function"],
    "requested": ["Softmax", "requested"],
}


def model(*fallbacks, device: str = "GPU:0", predicted: bool = False) -> dict:
    return {
        "operations": {device: {"MatMul": 3}, "CPU:0": {"IteratorGetNext": 1}},
        "fallbacks": list(fallbacks),
        "predicted": predicted,
        "mechanism": "graph",
        "unknown_because": None,
    }


TO_GPU = {
    "source": "CPU:0",
    "target": "GPU:0",
    "bytes": 8 * 2**20 + 2**19,
    "unknown": 0,
    "largest": [[[2048, 1024], 8 * 2**20], [[64, 2048], 2**19]],
}


def explained(*, copies: list | None = None, profile: float | None = 9.0e6, **causes) -> dict:
    """By model, the causes in its rows, and what is copied."""
    usual = {
        "no_such_device": ["no such device"],
        "variable_elsewhere": ["variable elsewhere", None],
        "compiled": ["compiled", None],
    }
    seen = {name: {"causes": each, "copies": None} for name, each in (usual | causes).items()}
    seen["variable_elsewhere"]["copies"] = [TO_GPU] if copies is None else copies
    return {"explained": seen | {"profile": profile}}


def reported(*, predicted: bool = False, **changes) -> dict:
    clean = {name: model() for name in ("dense", "dense_jit", "float64_batch_norm")}
    planted = {name: model(found, predicted=predicted) for name, found in FOUND.items()}
    return clean | planted | explained() | changes


EAGER = {
    "strings": "/device:CPU:0",
    "int32_product": "/device:CPU:0",
    "python": "/device:CPU:0",
    "float_product": "/device:GPU:0",
}
GOOD = {"real": reported(), "predicted": reported(predicted=True), "eager": EAGER}
FALSIFIED = {
    **{name: [{"real": reported(**{name: model()})}] for name in FOUND},
    "no_such_device": [{"real": reported(**explained(no_such_device=[]))}],
    "variable_elsewhere": [{"real": reported(**explained(variable_elsewhere=["host memory"]))}],
    "compiled": [{"real": reported(**explained(compiled=["requested"]))}],
    "copied_bytes": [
        {"real": reported(**explained(copies=[]))},
        {"real": reported(**explained(copies=[TO_GPU | {"unknown": 1}]))},
        {"real": reported(**explained(copies=[TO_GPU | {"largest": [[[64, 2048], 2**19]]}]))},
    ],
    "copied_in_profile": [{"real": reported(**explained(profile=18.0e6))}],
    "clean": [
        {"real": reported(dense=model(device="CPU:1"))},
        {"real": reported(dense_jit=model(["MatMul", "dtype"]))},
    ],
    "eager": [
        {"eager": EAGER | {"strings": "/device:GPU:0"}},
        {"eager": EAGER | {"float_product": "/device:CPU:0"}},
    ],
    "predicted": [{"predicted": reported(predicted=True, python=model())}],
}
FALSIFIED["strings"].append({"real": reported(strings=model(FOUND["strings"], predicted=True))})
UNJUDGED = {
    "predicted": {"predicted": {"error": "it failed"}},
    "copied_bytes": {"real": reported(explained={"error": "it failed"})},
    "copied_in_profile": {"real": reported(**explained(profile=None))},
}
