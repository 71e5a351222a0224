"""What three models gain from mixed precision, and what the finding about float32 promises."""

from __future__ import annotations

import statistics
import tempfile
import time
from functools import partial
from typing import Any

from benchmarks.gpu.part import Cases, Measured, Outcome, Part, error_of

MODELS = ("dense", "convolutional", "transformer")
RUNS = tuple(f"{model}/{name}" for model in MODELS for name in ("float32", "TF32", "bfloat16"))
EPOCHS, STEPS, EACH = 4, 16, 8
"""Epochs of a training, steps of an epoch, and of an execution: Keras' loop then costs little."""
PART = Part("precision", "What do models gain from mixed precision?")


@PART.slice("all", 60)
def cases(small: bool) -> Cases:
    """Measures what the rule promises, then trains."""
    for name in ("float32", "TF32"):
        yield f"promise/{name}", partial(promise_of, name, small)
    for run in RUNS[::2][:2] if small else RUNS:
        yield run, partial(train, *run.split("/"), small)


def promise_of(name: str, small: bool) -> dict[str, Any]:
    """Returns the ratio that the finding about float32 rests on; None without that finding."""
    import keras_gpukit as gpukit
    from benchmarks.gpu.models import in_format, usual
    from keras_gpukit.rules.compute.precision import Float32OnTensorCores

    case, key = usual("dense", small), Float32OnTensorCores.peak_rate_over_that_of_now.key
    with in_format(name), tempfile.TemporaryDirectory() as logs:
        monitor = gpukit.Monitor(logs, verbose=0)
        case.compiled().fit(case.data(), steps_per_epoch=4, verbose=0, callbacks=[monitor])
    found = (
        finding for finding in monitor.summary.findings if finding.code == Float32OnTensorCores.code
    )
    figures = (figure for finding in found for figure in finding.evidence)
    return {"gain": next((figure.value for figure in figures if figure.key == key), None)}


def train(model: str, name: str, small: bool) -> dict[str, Any]:
    """Trains a model, and returns its step time: of epochs from their start to their last step."""
    import keras

    from benchmarks.gpu.models import in_format, usual

    class Clock(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            starts_s.append(time.perf_counter())
            ends_s.append(0.0)

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            ends_s[-1] = time.perf_counter()

    starts_s: list[float] = []
    ends_s: list[float] = []
    case = usual(model, small)
    with in_format(name):
        compiled = case.compiled(steps_per_execution=EACH)
        options = {"epochs": EPOCHS, "steps_per_epoch": STEPS, "callbacks": [Clock()]}
        compiled.fit(case.data(), verbose=0, **options)
    epochs_s = [end - start for start, end in zip(starts_s, ends_s, strict=True)]
    return {"step_ms": 1e3 * statistics.median(epochs_s[1:]) / STEPS}


def gains(measured: Measured, slow: str) -> dict[str, float]:
    """Returns by which factor each model trains faster in bfloat16 than in another precision."""
    found = {}
    for model in MODELS:
        rows = [measured.get(f"{model}/{name}", {"error": ""}) for name in (slow, "bfloat16")]
        if not any(error_of(row) is not None for row in rows):
            found[model] = rows[0]["step_ms"] / rows[1]["step_ms"]
    return found


@PART.claim(
    "dense, convolutional and transformer models train faster in mixed bfloat16 than in float32 "
    "without TensorFloat-32"
)
def bfloat16(measured: Measured) -> Outcome:
    if not (found := gains(measured, "float32")):
        return Outcome(None, "no model was trained in both float32 and bfloat16")
    holds = min(found.values()) > 1
    return Outcome(
        None if holds and len(found) < len(MODELS) else holds,
        f"bfloat16 trains {', '.join(f'{model} {gain:.2f}×' for model, gain in found.items())} as "
        "fast as float32.",
    )


@PART.claim("no model gains more from mixed bfloat16 than the finding about float32 promises")
def promise(measured: Measured) -> Outcome:
    message, holds = [], True
    for name in ("float32", "TF32"):
        promised = measured.get(f"promise/{name}", {}).get("gain")
        found = gains(measured, name)
        if promised is not None and found:
            most = max(found.values())
            message.append(f"{promised:g}× promised over {name}, {most:.2f}× measured")
            holds &= most <= promised
    if not message:
        return Outcome(None, "no finding promised a gain that was measured")
    return Outcome(holds, f"At most {'; '.join(message)}.")
