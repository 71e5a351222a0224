"""Models that take 1 GB; made up."""

from benchmarks.gpu.parts.predictions import IMAGES, RECURRENT

MODELS = (*IMAGES, "transformer", "dense")


def row(predicted: float | None, unknown_because: str | None = None) -> dict:
    return {"predicted": predicted, "peak": 1e9, "unknown_because": unknown_because}


GOOD = {
    **{name: row(1.05e9) for name in MODELS},
    **{f"{name}, jit": row(1.3e9) for name in MODELS},
    "LSTM": row(0.2e9, "what cuDNN keeps"),
    "GRU": row(1e9),
}
assert set(RECURRENT) < set(GOOD)
FALSIFIED = {
    "plain": [{"VGG16": row(1.2e9)}, {"dense": row(0.8e9)}],
    "jit": [{"VGG16, jit": row(0.99e9)}, {"transformer, jit": row(1.2e9, "its loops")}],
    "recurrent": [{"LSTM": row(0.2e9)}],
}
UNJUDGED = {"plain": {"VGG16": {"error": "it crashed"}}}
