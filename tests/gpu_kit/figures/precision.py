"""Trainings that take what the ceilings of a card allow, and a quarter more; made up."""

from benchmarks.gpu.parts.precision import RUNS

RATES = {"float32": 5e13, "TF32": 3e14, "bfloat16": 7e14, "float16": 7e14}
OPERATIONS = 1e12


def training(name: str, slower: float = 1.25, losses: tuple = (2.0, 1.0, 0.5)) -> dict:
    """A training, slower than its ceiling by a factor."""
    return {
        "step_ms": 1e3 * slower * OPERATIONS / RATES[name],
        "losses": list(losses),
        "operations": OPERATIONS,
        "bytes": 1e6,
    }


GOOD = {
    **{
        f"ceiling/{name}": {"operations_per_s": rate, "bytes_per_s": 4e12}
        for name, rate in RATES.items()
    },
    "promise/float32": {"gain": 16.0},
    "promise/TF32": {"gain": 2.5},
    **{run: training(run.split("/")[1]) for run in RUNS},
}
FALSIFIED = {
    "bfloat16": [{"transformer/bfloat16/graph": training("bfloat16", 20.0)}],
    "tf32": [{"convolutional/TF32/jit": training("TF32", 8.0)}],
    "promise": [{"promise/TF32": {"gain": 2.0}}],
    "ceilings": [
        {"dense/float32/graph": training("float32", 3.0)},
        {"transformer/float16/jit": training("float16", 0.8)},
        {"ceiling/float16": {"operations_per_s": 7e14, "bytes_per_s": 1e8}},
    ],
    "losses": [{"dense/float16/jit": training("float16", losses=(2.0, 1.5, 1.0))}],
}
UNJUDGED = {
    "bfloat16": {"transformer/bfloat16/graph": {"error": "it failed"}},
    "promise": {"promise/float32": {"gain": None}, "promise/TF32": {"error": "it failed"}},
    "losses": {"dense/float16/jit": {"error": "it failed"}},
}
