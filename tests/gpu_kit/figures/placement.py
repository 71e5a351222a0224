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


def reported(*, predicted: bool = False, **changes) -> dict:
    clean = {name: model() for name in ("dense", "dense_jit", "float64_batch_norm")}
    planted = {name: model(found, predicted=predicted) for name, found in FOUND.items()}
    return clean | planted | changes


EAGER = {
    "strings": "/device:CPU:0",
    "int32_product": "/device:CPU:0",
    "python": "/device:CPU:0",
    "float_product": "/device:GPU:0",
}
GOOD = {"real": reported(), "predicted": reported(predicted=True), "eager": EAGER}
FALSIFIED = {
    **{name: [{"real": reported(**{name: model()})}] for name in FOUND},
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
UNJUDGED = {"predicted": {"predicted": {"error": "it failed"}}}
