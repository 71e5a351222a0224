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
        "unknown_because": None,
    }


def reported(**changes) -> dict:
    clean = {name: model() for name in ("dense", "dense_jit", "float64_batch_norm")}
    return clean | {name: model(found) for name, found in FOUND.items()} | changes


GOOD = {"real": reported()}
FALSIFIED = {
    **{name: [{"real": reported(**{name: model()})}] for name in FOUND},
    "clean": [
        {"real": reported(dense=model(device="CPU:1"))},
        {"real": reported(dense_jit=model(["MatMul", "dtype"]))},
    ],
}
FALSIFIED["strings"].append({"real": reported(strings=model(FOUND["strings"], predicted=True))})
UNJUDGED = {"clean": {"real": {"error": "it failed"}}}
