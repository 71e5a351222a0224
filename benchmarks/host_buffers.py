"""What caches and shuffle buffers take of the host's memory, computed and measured.

    python benchmarks/host_buffers.py --json benchmarks/results/host_buffers.json

Each pipeline feeds two epochs in a process of its own, after a short fit without buffers. What the
process grew by in the first epoch is compared with what is computed in its first seconds. The host
is said to have half of what is computed left, less by what the process has grown since: so there
is a moment when it has none left, with which the finding of the first look is compared.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from dataclasses import replace
from typing import Any

from harness import argument_parser, in_own_process, print_table
from planted.host_buffers import model, pipelines
from results_file import save, saved_rows

STEP_S = 0.03
EPOCHS = 2
HAS_LEFT = 0.5


def train(name: str) -> dict[str, Any]:
    """What a process of its own does."""
    import keras
    import psutil

    import keras_gpukit as gpukit
    from keras_gpukit.rules.memory.host_buffers import InputFillsMemory
    from keras_gpukit.watching import host_buffers as watching

    process = psutil.Process()
    dataset = pipelines()[name]()
    built = model(dataset)
    built.fit(dataset.take(0).concatenate(_one_batch(dataset)), verbose=0)
    gc.collect()
    before_bytes = process.memory_info().rss
    grown: list[int] = []
    looks: list[Any] = []

    class Reads(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            grown.append(process.memory_info().rss - before_bytes)
            time.sleep(STEP_S)

    original = watching.HostBufferWatch.record

    def record(self: Any) -> Any:
        looked = original(self)
        full_bytes = sum(each.full_bytes or 0 for each in looked.buffers)
        grown_bytes = process.memory_info().rss - before_bytes
        looks.append(replace(looked, left_bytes=int(HAS_LEFT * full_bytes) - grown_bytes))
        return looks[-1]

    watching.HostBufferWatch.record = record  # type: ignore[method-assign]
    monitor = gpukit.Monitor(None, verbose=0)
    built.fit(dataset, epochs=EPOCHS, verbose=0, callbacks=[monitor, Reads()])
    first = next(each for each in looks if each.missing_bytes is not None)
    full_bytes = sum(each.full_bytes for each in first.buffers)
    found = InputFillsMemory().find_in(first)
    epoch_steps = len(grown) // EPOCHS
    beyond = [step for step, each in enumerate(grown) if each > HAS_LEFT * full_bytes]
    last = looks[-1]
    return {
        "computed_bytes": full_bytes,
        "grew_by_bytes": max(grown[:epoch_steps]),
        "is_measured": any(each.is_measured for each in first.buffers),
        "first_look_at_step": first.steps,
        "finding": found.title if found else None,
        "severity": found.severity if found else None,
        "really_out_at": beyond[0] / epoch_steps if beyond else None,
        "missing_in_the_end_bytes": last.missing_bytes,
        "in_the_end": "passed"
        if "host-memory-runs-out" in monitor.summary.verdict.passed
        else "not passed",
    }


def _one_batch(dataset: Any) -> Any:
    import tensorflow as tf

    zeros = tf.nest.map_structure(
        lambda spec: tf.zeros([1, *spec.shape[1:]], spec.dtype), dataset.element_spec
    )
    return tf.data.Dataset.from_tensors(zeros)


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--only", nargs="*", help="pipelines to run; others are kept from --json")
    options = parser.parse_args()
    rows = saved_rows(options.json) if options.only else {}
    for name in options.only or pipelines():
        (row,) = in_own_process(__file__, ["--train", name])
        rows[name] = row
        print(name, json.dumps(row), flush=True)
        if options.json:
            save(options.json, __file__, has_left=HAS_LEFT, step_s=STEP_S, pipelines=rows)
    print_table(
        "host memory of caches and shuffle buffers",
        ["pipeline", "computed", "grew by", "ratio", "finding", "really out after"],
        (
            [
                name,
                f"{row['computed_bytes'] / 2**20:.0f} MiB",
                f"{row['grew_by_bytes'] / 2**20:.0f} MiB",
                f"{row['computed_bytes'] / row['grew_by_bytes']:.2f}",
                row["finding"] or "none",
                "" if row["really_out_at"] is None else f"{row['really_out_at']:.0%}",
            ]
            for name, row in rows.items()
        ),
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--train"]:
        print(json.dumps(train(sys.argv[2])))
    else:
        main()
