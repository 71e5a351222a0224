"""What is advised where memory is limited: by an out-of-memory note, by `find_batch_size`."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.gpu.forks import in_fork
from benchmarks.gpu.nvml import read_gpus
from benchmarks.gpu.part import Claim, Outcome, Part, Slice
from benchmarks.gpu.parts.memory import count_as_gpus_do

LIMIT = "6GiB"
TOO_LARGE = 512
EPOCHS, STEPS = 2, 4
SEARCH_S = 30.0


def limited(small: bool) -> tuple[Any, Callable[[int], Any]]:
    """Limits memory, and returns what builds a model, and what makes its batches."""
    count_as_gpus_do()
    import keras
    import numpy as np
    import tensorflow as tf

    import keras_gpukit as gpukit

    if read_gpus():
        gpukit.configure_gpus(memory=LIMIT, verbose=False)
    side = 32 if small else 160

    def model(jit: bool) -> Any:
        if small:
            convolutions = [keras.layers.Conv2D(64, 3, padding="same") for _ in range(2)]
            head = [keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(10)]
            built = keras.Sequential([keras.Input((side, side, 3)), *convolutions, *head])
        else:
            built = keras.applications.MobileNetV2(
                weights=None, classes=10, input_shape=(side, side, 3), classifier_activation=None
            )
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        built.compile("adam", loss, jit_compile=jit)
        return built

    def batches(size: int) -> Any:
        one = np.zeros((size, side, side, 3), "float32"), np.zeros(size, "int32")
        return tf.data.Dataset.from_tensors(one).repeat(STEPS)

    return model, batches


def run_out(jit: bool, small: bool) -> dict[str, Any]:
    """Fits a batch that is too large, and returns what the note on the exception suggests."""
    import keras_gpukit as gpukit

    model, batches = limited(small)
    monitor = gpukit.Monitor(None, verbose=0)
    raised, notes = None, ""
    try:
        model(jit).fit(batches(TOO_LARGE * 2), verbose=0, callbacks=[monitor])
    except Exception as error:
        raised, notes = type(error).__name__, "\n".join(getattr(error, "__notes__", ()))
    record = monitor.summary.out_of_memory
    sizes = [
        each.batch_size for each in (record.options if record else ()) if each.kind == "batch size"
    ]
    return {"raised": raised, "note": notes[:3000], "suggested": sizes[0] if sizes else None}


def trains(jit: bool, small: bool, size: int) -> dict[str, Any]:
    """Fits batches of a size, and returns whether memory sufficed."""
    import tensorflow as tf

    model, batches = limited(small)
    try:
        model(jit).fit(batches(size), epochs=EPOCHS, verbose=0)
    except (tf.errors.ResourceExhaustedError, tf.errors.InvalidArgumentError) as error:
        return {"size": size, "trains": False, "message": str(error)[:300]}
    return {"size": size, "trains": True}


def out_of_memory(jit: bool, small: bool) -> dict[str, Any]:
    """Runs out of memory in one process, and follows the note in another."""
    row: dict[str, Any] = in_fork(run_out, jit, small)
    if row["suggested"]:
        row["then"] = in_fork(trains, jit, small, row["suggested"])
    return row


def search(small: bool) -> dict[str, Any]:
    """Searches the largest batch size."""
    import keras_gpukit as gpukit

    model, batches = limited(small)
    began_s = time.perf_counter()
    seconds = 5.0 if small else SEARCH_S
    found = gpukit.find_batch_size(
        model(False), batches(64), seconds=seconds, max_batch_size=4096, verbose=False
    )
    return {
        "largest": found.largest,
        "predicted": found.predicted_largest,
        "ending": found.ending,
        "trials": [[each.batch_size, each.fits] for each in found.trials],
        "took_s": time.perf_counter() - began_s,
    }


def find_and_train(small: bool) -> dict[str, Any]:
    """Searches in one process, and trains with the size, and with twice the size, in others."""
    row: dict[str, Any] = in_fork(search, small)
    if row["largest"]:
        row["then"] = in_fork(trains, False, small, row["largest"])
        row["twice"] = in_fork(trains, False, small, 2 * row["largest"])
    return row


def judge_note(row: dict[str, Any]) -> Outcome:
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


def judge_largest(row: dict[str, Any]) -> Outcome:
    if row["largest"] is None:
        return Outcome(False, f"No size was found: {row['ending']}.")
    then = {True: "trains", False: "does not"}
    return Outcome(
        row["then"]["trains"] and not row["twice"]["trains"],
        f"{row['largest']} was found in {row['took_s']:.0f} s ({row['predicted']} predicted). It "
        f"{then[row['then']['trains']]}; twice as many: {then[row['twice']['trains']]}.",
    )


PART = Part(
    "limits",
    "Does a batch size train that was advised where memory is limited?",
    {
        "out-of-memory": Slice(
            lambda small, _: [("out of memory", partial(out_of_memory, False, small))],
            80,
            alone=False,
        ),
        "jit": Slice(
            lambda small, _: [("out of memory, jit", partial(out_of_memory, True, small))], 110
        ),
        "batch-size": Slice(lambda small, _: [("batch size", partial(find_and_train, small))], 90),
    },
    (
        Claim(
            "note",
            "the exception of a step that needs more than 6 GiB has a note, and the batch size "
            "that it suggests trains",
            judge_note,
            ("out of memory",),
            (
                "out-of-memory:29a3492594e7",
                "what other processes hold is taken off a limit only where they leave less than "
                "that (`tests/memory/test_what_would_fit.py`).",
            ),
        ),
        Claim("note_jit", "the same with jit", judge_note, ("out of memory, jit",)),
        Claim(
            "largest",
            "the size that `find_batch_size` finds in half a minute trains, and twice as many do "
            "not",
            judge_largest,
            ("batch size",),
        ),
    ),
)
