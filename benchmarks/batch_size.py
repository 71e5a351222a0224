"""Whether `find_batch_size` finds the largest batch size that really trains, and how fast it is.

    python benchmarks/batch_size.py --json benchmarks/results/batch_size.json

Each model trains on a CPU whose allocator has a planted limit (TF_CPU_ALLOCATOR_USE_BFC), in
processes of their own. The true largest batch size is bisected by real fits: three epochs of four
full batches and a smaller one, eight times, each in a process of its own, with the pipeline below.
Where TensorFlow runs several operations at a time, their order changes, and with it the peak: the
same batch size trains once and runs out next, so no single size is the largest. Therefore
operations run one by one here (TF_NUM_INTEROP_THREADS), in the search and in the fits. How often
the model trains with the batch size that was recommended is counted by as many fits.
`--inter-op-threads 0` shows how it is where TensorFlow chooses.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

from harness import argument_parser, in_own_process, print_table
from results_file import save, saved_rows

LIMITS_MIB = {
    "deep dense": 128,
    "convolutional": 192,
    "residual": 192,
    "attention": 160,
    "U-Net": 192,
    "recommender": 128,
    "MobileNetV2": 256,
    "LSTM": 128,
    "text": 128,
    "autoencoder": 128,
    "wide dense": 128,
}
CLEAR = tuple(LIMITS_MIB)[:6]
"""Those with a largest batch size that shows in time. "MobileNetV2" takes ten seconds to trace in
each process, so that the search has few of them. With the others chance decides over a tenth of the
batch sizes: the loop of the LSTM runs several turns at once, and one tensor takes a tenth of the
memory in "text" and "wide dense", a fifth in "autoencoder"."""
EPOCHS, STEPS = 3, 4
FIT_S = 60
"""They take about ten seconds. One that is not done then waits for memory at one operation after
the other."""
FITS = 8
"""That must all come to their end for a batch size to count as one that trains."""
WITHIN = 0.05


def find(name: str) -> dict[str, Any]:
    """What a process of its own does."""
    import keras
    from planted.limited_memory import TRAININGS

    import keras_gpukit as gpukit
    from keras_gpukit.records.codec import to_dict

    keras.utils.set_random_seed(0)
    training = TRAININGS[name]
    model = training.build if training.keeps_its_class else training.build()
    search = gpukit.find_batch_size(model, training.data(32, 320_000), isolated=True, verbose=False)
    return {"found": to_dict(search)}


def fit(name: str, batch_size: int) -> dict[str, Any]:
    """What a process of its own does, if it does not run out of memory."""
    import keras
    import tensorflow as tf
    from planted.limited_memory import TRAININGS

    keras.utils.set_random_seed(0)
    training = TRAININGS[name]
    rows = STEPS * batch_size + batch_size // 3
    training.build().fit(training.data(batch_size, rows), epochs=EPOCHS, verbose=0)
    return {"peak_bytes": tf.config.experimental.get_memory_info("CPU:0")["peak"]}


def with_limit(name: str, *arguments: str, limit_s: float, quiet: bool) -> dict[str, Any]:
    """Returns what this script prints in a process of its own, whose memory is limited."""
    environment = {
        "TF_CPU_ALLOCATOR_USE_BFC": "true",
        "TF_CPU_BFC_MEM_LIMIT_IN_MB": str(LIMITS_MIB[name]),
        "TF_ENABLE_ONEDNN_OPTS": "0",  # with it, TensorFlow ends by a segmentation fault
    }
    return in_own_process(__file__, arguments, limit_s, environment, quiet=quiet)[-1]


def fits_once(name: str, batch_size: int) -> bool:
    """Whether a fit comes to its end."""
    try:
        with_limit(name, "--fit-here", name, str(batch_size), limit_s=FIT_S, quiet=True)
    except subprocess.SubprocessError:
        return False
    return True


def fits(name: str, batch_size: int) -> bool:
    """Whether each of `FITS` fits comes to its end."""
    fitted = all(fits_once(name, batch_size) for _ in range(FITS))
    print(f"  {name}: {batch_size} {'fits' if fitted else 'does not fit'}", flush=True)
    return fitted


def bisect(name: str, near: int, near_fits: bool) -> int:
    """The largest batch size that trains in all of `FITS` fits, to 1 %."""
    step = max(near // 20, 1)
    if near_fits:
        low, high = near, near + step
        while fits(name, high):
            step *= 2
            low, high = high, high + step
    else:
        low, high = near - step, near
        while not fits(name, low):
            low, high = low - step, low
    while high - low > max(1, low // 100):
        middle = (low + high) // 2
        low, high = (middle, high) if fits(name, middle) else (low, middle)
    return low


def measure(name: str, true: int | None) -> dict[str, Any]:
    began = time.perf_counter()
    found = with_limit(name, "--find-here", name, limit_s=900, quiet=False)["found"]
    took_s = time.perf_counter() - began
    largest = found["largest"]
    print(f"  {name}: {largest} found in {took_s:.0f} s, {len(found['trials'])} trials", flush=True)
    held = sum(fits_once(name, largest) for _ in range(FITS))
    print(f"  {name}: {held} of {FITS} fits with it came to their end", flush=True)
    true = true or bisect(name, largest, held == FITS)
    return {
        "model": name,
        "limit_mib": LIMITS_MIB[name],
        "largest": largest,
        "true": true,
        "below_true_percent": round(100 * (1 - largest / true), 1),
        "seconds": round(took_s),
        "trials_of_memory": sum(trial["rate"] is None for trial in found["trials"]),
        "predicted": found["predicted_largest"],
        "fits_that_held": f"{held} of {FITS}",
        "fastest": found["fastest"],
        "found": found,
    }


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--only", nargs="*", help="models to run, in addition to what --json has")
    parser.add_argument("--inter-op-threads", type=int, default=1)
    parser.add_argument(
        "--keep-true",
        action="store_true",
        help="take the true sizes from --json: they are TensorFlow's, not the search's",
    )
    options = parser.parse_args()
    os.environ["TF_NUM_INTEROP_THREADS"] = str(options.inter_op_threads)
    before = saved_rows(options.json, "models") if options.only or options.keep_true else {}
    rows = before if options.only else {}
    for name in options.only or CLEAR:
        rows[name] = measure(name, before[name]["true"] if options.keep_true else None)
        save(
            options.json,
            __file__,
            within=WITHIN,
            epochs=EPOCHS,
            steps=STEPS,
            fits=FITS,
            inter_op_threads=options.inter_op_threads,
            models=rows,
        )
    near = sum(abs(row["below_true_percent"]) <= 100 * WITHIN for row in rows.values())
    shown = [{key: value for key, value in row.items() if key != "found"} for row in rows.values()]
    print_table(
        f"found within {WITHIN:.0%} of the true one: {near} of {len(rows)}",
        list(shown[0]),
        [[str(value) for value in row.values()] for row in shown],
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--find-here"]:
        print(json.dumps(find(sys.argv[2])))
    elif sys.argv[1:2] == ["--fit-here"]:
        print(json.dumps(fit(sys.argv[2], int(sys.argv[3]))))
    else:
        main()
