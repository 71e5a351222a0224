"""Trainings that gain what is promised, or less; made up."""

from benchmarks.gpu.parts.precision import RUNS

STEP_MS = {"float32": 20.0, "TF32": 4.0, "bfloat16": 2.0}

GOOD = {
    "promise/float32": {"gain": 16.0},
    "promise/TF32": {"gain": 2.5},
    **{run: {"step_ms": STEP_MS[run.split("/")[1]]} for run in RUNS},
}
FALSIFIED = {
    "bfloat16": [{"transformer/bfloat16": {"step_ms": 21.0}}],
    "promise": [{"promise/TF32": {"gain": 1.5}}],
}
UNJUDGED = {
    "bfloat16": {"transformer/bfloat16": {"error": "it failed"}},
    "promise": {"promise/float32": {"gain": None}, "promise/TF32": {"error": "it failed"}},
}
