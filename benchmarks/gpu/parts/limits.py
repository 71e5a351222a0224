"""What is advised where memory is limited: by an out-of-memory note, by `find_batch_size`."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from benchmarks.gpu.nvml import count_as_gpus_do, read_gpus
from benchmarks.gpu.part import Outcome, Part

LIMIT = "6GiB"
TOO_LARGE, EPOCHS, STEPS = 1024, 2, 4
SEARCH_S = 30.0
PART = Part("limits", "Does a batch size train that was advised where memory is limited?")


def in_fork(function: Callable[..., Any], *arguments: Any) -> Any:
    """Returns what a function returns in a fork: TensorFlow settles memory once per process.

    TensorFlow may be loaded, but its runtime must not have started.
    """
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        return pool.submit(function, *arguments).result()


def limited(jit: bool, small: bool) -> tuple[Any, Callable[[int], Any]]:
    """Limits memory, and returns a compiled model, and what makes its batches."""
    count_as_gpus_do()
    import keras
    import numpy as np
    import tensorflow as tf

    import keras_gpukit as gpukit

    if read_gpus():
        gpukit.configure_gpus(memory=LIMIT, verbose=False)
    side = 32 if small else 160
    if small:
        convolutions = [keras.layers.Conv2D(64, 3, padding="same") for _ in range(2)]
        head = [keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(10)]
        model = keras.Sequential([keras.Input((side, side, 3)), *convolutions, *head])
    else:
        model = keras.applications.MobileNetV2(
            weights=None, classes=10, input_shape=(side, side, 3), classifier_activation=None
        )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, jit_compile=jit)

    def batches(size: int) -> Any:
        one = np.zeros((size, side, side, 3), "float32"), np.zeros(size, "int32")
        return tf.data.Dataset.from_tensors(one).repeat(STEPS)

    return model, batches


def run_out(jit: bool, small: bool) -> dict[str, Any]:
    """Fits a batch that is too large, and returns what the note on the exception suggests."""
    import keras_gpukit as gpukit

    model, batches = limited(jit, small)
    monitor = gpukit.Monitor(None, verbose=0)
    raised, notes = None, ""
    try:
        model.fit(batches(TOO_LARGE), verbose=0, callbacks=[monitor])
    except Exception as error:
        raised, notes = type(error).__name__, "\n".join(getattr(error, "__notes__", ()))
    record = monitor.summary.out_of_memory
    options = record.options if record else ()
    sizes = [option.batch_size for option in options if option.kind == "batch size"]
    return {"raised": raised, "note": notes[:3000], "suggested": sizes[0] if sizes else None}


def trains(jit: bool, small: bool, size: int) -> dict[str, Any]:
    """Fits batches of a size, and returns whether memory sufficed."""
    import tensorflow as tf

    model, batches = limited(jit, small)
    try:
        model.fit(batches(size), epochs=EPOCHS, verbose=0)
    except (tf.errors.ResourceExhaustedError, tf.errors.InvalidArgumentError) as error:
        return {"size": size, "trains": False, "message": str(error)[:300]}
    return {"size": size, "trains": True}


def search(small: bool) -> dict[str, Any]:
    """Searches the largest batch size."""
    import keras_gpukit as gpukit

    model, batches = limited(False, small)
    started_s, seconds = time.perf_counter(), 5.0 if small else SEARCH_S
    found = gpukit.find_batch_size(
        model, batches(64), seconds=seconds, max_batch_size=4096, verbose=False
    )
    return {
        "largest": found.largest,
        "predicted": found.predicted_largest,
        "ending": found.ending,
        "trials": [[trial.batch_size, trial.fits] for trial in found.trials],
        "took_s": time.perf_counter() - started_s,
    }


@PART.slice("out-of-memory", 80, case="out of memory", alone=False)
def out_of_memory(small: bool, jit: bool = False) -> dict[str, Any]:
    """Runs out of memory in one process, and follows the note in another."""
    row: dict[str, Any] = in_fork(run_out, jit, small)
    if row["suggested"]:
        row["then"] = in_fork(trains, jit, small, row["suggested"])
    return row


@PART.slice("jit", 110, case="out of memory, jit")
def out_of_memory_in_jit(small: bool) -> dict[str, Any]:
    """Does the same where XLA compiles the steps."""
    return out_of_memory(small, jit=True)


@PART.slice("batch-size", 90, case="batch size")
def batch_size(small: bool) -> dict[str, Any]:
    """Searches in one process, and trains with the size, and with twice the size, in others."""
    row: dict[str, Any] = in_fork(search, small)
    if row["largest"]:
        row["then"] = in_fork(trains, False, small, row["largest"])
        row["twice"] = in_fork(trains, False, small, 2 * row["largest"])
    return row


@PART.claim("the same with jit", "out of memory, jit", name="note_jit")
@PART.claim(
    "the exception of a step that needs more than 6 GiB has a note, and the batch size that it "
    "suggests trains",
    "out of memory",
    corrected=(
        "out-of-memory:29a3492594e7",
        "what other processes hold is taken off a limit only where they leave less than that "
        "(`tests/memory/test_what_would_fit.py`).",
    ),
)
def note(row: dict[str, Any]) -> Outcome:
    if row["raised"] is None:
        return Outcome(None, "the batch that was meant to be too large did fit")
    if row["suggested"] is None:
        return Outcome(False, f"The fit ended with {row['raised']}; no batch size is suggested.")
    verb = "trains" if row["then"]["trains"] else "runs out of memory too"
    return Outcome(
        bool(row["then"]["trains"] and row["note"]),
        f"The fit ended with {row['raised']}{'' if row['note'] else ', without a note'}; the "
        f"suggested batch of {row['suggested']} {verb}.",
    )


@PART.claim(
    "the size that `find_batch_size` finds in half a minute trains, and twice as many do not",
    "batch size",
)
def largest(row: dict[str, Any]) -> Outcome:
    if row["largest"] is None:
        return Outcome(False, f"No size was found: {row['ending']}.")
    then = {True: "trains", False: "does not"}
    return Outcome(
        row["then"]["trains"] and not row["twice"]["trains"],
        f"{row['largest']} was found in {row['took_s']:.0f} s ({row['predicted']} predicted). It "
        f"{then[row['then']['trains']]}; twice as many: {then[row['twice']['trains']]}.",
    )
