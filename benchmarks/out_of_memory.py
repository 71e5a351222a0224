"""Whether an out-of-memory report is right, and whether the batch size that it suggests trains.

    python benchmarks/out_of_memory.py --json benchmarks/results/out_of_memory.json

Ten cases: models of the functional API and subclassed ones, in graph, jit and eager steps. Each
trains in a process of its own whose CPU allocator is limited (TF_CPU_ALLOCATOR_USE_BFC), with a
batch that does not fit, until TensorFlow raises its ResourceExhaustedError. The report is then read
from the record of the dead run, and compared with what is known otherwise: each layer makes tensors
with a number of channels that no other layer has, and TensorFlow's log says what was in use. A
second process trains three epochs with the batch size that was suggested.
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

LIMIT_MIB = 256
SIDE = 32
CHANNELS = {"stem": 24, "wide": 96, "narrow": 40, "last": 56}
CASES = (
    *itertools.product(("functional", "subclassed", "residual"), ("graph", "jit", "eager"), (768,)),
    ("residual", "graph", 500),
)
EPOCHS = 3
STEPS = 4


def build(kind: str, mode: str) -> Any:
    import keras

    layers = keras.layers

    def conv(name: str) -> Any:
        return layers.Conv2D(CHANNELS[name], 3, padding="same", activation="relu", name=name)

    class Subclassed(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.convolutions = [conv(name) for name in CHANNELS]
            self.pool = layers.GlobalAveragePooling2D()
            self.head = layers.Dense(10)

        def call(self, inputs):
            for each in self.convolutions:
                inputs = each(inputs)
            return self.head(self.pool(inputs))

    if kind == "subclassed":
        model: Any = Subclassed()
    else:
        outputs = inputs = keras.Input((SIDE, SIDE, 3))
        for name in CHANNELS:
            outputs = conv(name)(outputs)
            if kind == "residual":
                inner = layers.BatchNormalization(name=f"{name}_norm")(outputs)
                outputs = layers.Add(name=f"{name}_add")([outputs, inner])
        outputs = layers.Dense(10)(layers.GlobalAveragePooling2D()(outputs))
        model = keras.Model(inputs, outputs)
    model.compile("adam", "mse", jit_compile=mode == "jit", run_eagerly=mode == "eager")
    return model


def train(kind: str, mode: str, batch_size: int, epochs: int, log_dir: str) -> None:
    """What a process of its own does."""
    import numpy as np

    import keras_gpukit as gpukit

    model = build(kind, mode)
    inputs = np.zeros((batch_size * STEPS, SIDE, SIDE, 3), "float32")
    targets = np.zeros((batch_size * STEPS, 10), "float32")
    model.fit(
        inputs,
        targets,
        batch_size=batch_size,
        epochs=epochs,
        verbose=0,
        callbacks=[gpukit.Monitor(log_dir, verbose=0)],
    )
    print("TRAINED", flush=True)


def run(kind: str, mode: str, batch_size: int, epochs: int, log_dir: Path) -> tuple[bool, str]:
    """Trains in a process; returns whether it came to its end, and its standard error."""
    error_file = log_dir.parent / f"{log_dir.name}.err"
    environment = {
        **os.environ,
        "TF_CPU_ALLOCATOR_USE_BFC": "true",
        "TF_CPU_BFC_MEM_LIMIT_IN_MB": str(LIMIT_MIB),
        "TF_ENABLE_ONEDNN_OPTS": "0",  # with it, TensorFlow ends by a segmentation fault
        "TF_CPP_MIN_LOG_LEVEL": "0",
    }
    command = [sys.executable, __file__, "--train", kind, mode, batch_size, epochs, log_dir]
    with error_file.open("w") as errors:
        output = subprocess.run(
            [str(each) for each in command],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            timeout=600,
            check=False,
        ).stdout
    return "TRAINED" in output, error_file.read_text(errors="replace")


def judge(kind: str, mode: str, batch_size: int, folder: Path) -> dict[str, Any]:
    """One case."""
    from keras_gpukit.saved_runs import load_report

    name = f"{kind}-{mode}-{batch_size}"
    trained, errors = run(kind, mode, batch_size, 1, folder / name)
    assert not trained, f"{name} did not run out of memory"
    summary = load_report(folder / name).runs[0].summary
    record = summary.out_of_memory
    assert record is not None, errors[-3000:]
    suggested = next(each for each in record.options if each.kind == "batch size")
    in_use = re.findall(r"^InUse: +([\d.]+)(\w+)", errors, re.MULTILINE)[-1]
    logged_bytes = float(in_use[0]) * {"MiB": 2**20, "KiB": 2**10}[in_use[1]]
    trained, _ = run(kind, mode, suggested.batch_size or 0, EPOCHS, folder / f"{name}-smaller")
    return {
        "model": kind,
        "steps": mode,
        "batch_size": batch_size,
        "note_on_exception": "keras_gpukit: why memory ran out" in errors,
        "report_begins_with_it": summary.findings[0].code == "out-of-memory",
        "layer": record.layer,
        "shape": record.shape,
        "layer_is_right": is_right(record.layer, record.shape) if record.shape else None,
        "asked_bytes": record.state.asked_bytes,
        "in_use_bytes": record.state.in_use_bytes,
        "in_use_logged_bytes": int(logged_bytes),
        "limit_bytes": record.state.limit_bytes,
        "largest_free_bytes": record.state.largest_free_bytes,
        "suggested_batch_size": suggested.batch_size,
        "suggested_needs_bytes": suggested.needs_bytes,
        "suggested_trains": trained,
    }


def is_right(layer: str | None, shape: tuple[int, ...]) -> bool:
    """Whether each layer that is named makes tensors with so many channels, or takes them."""
    names = list(CHANNELS)
    makers = [name for name, channels in CHANNELS.items() if channels == shape[-1]]
    # The gradient of a layer's input has the channels of the layer before.
    users = [names[names.index(name) + 1] for name in makers if name != names[-1]]
    pool = ["global"] if makers == names[-1:] else []
    named = layer.split(" or ") if layer else []
    return bool(named) and all(each.split("_")[0] in (*makers, *users, *pool) for each in named)


def main() -> None:
    from harness import argument_parser, print_table
    from results_file import save, saved_rows

    parser = argument_parser(__doc__)
    parser.add_argument("--only", nargs="*", help="cases to run; others are kept from --json")
    options = parser.parse_args()
    cases = {f"{kind}-{mode}-{size}": (kind, mode, size) for kind, mode, size in CASES}
    rows = saved_rows(options.json, "cases") if options.only else {}
    with tempfile.TemporaryDirectory() as folder:
        for name in options.only or cases:
            rows[name] = judge(*cases[name], Path(folder))
            print(name, rows[name], flush=True)
            if options.json:
                save(options.json, __file__, limit_mib=LIMIT_MIB, epochs=EPOCHS, cases=rows)
    trains = sum(row["suggested_trains"] for row in rows.values())
    print_table(
        f"the suggested batch size trains {EPOCHS} epochs in {trains} of {len(rows)} cases",
        list(next(iter(rows.values()))),
        [[str(value) for value in row.values()] for row in rows.values()],
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--train"]:
        _, _, model_kind, step_mode, size, count, logs = sys.argv
        train(model_kind, step_mode, int(size), int(count), logs)
    else:
        main()
