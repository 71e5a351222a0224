"""The figures behind thresholds of rules: buffers, ready batches, sampled stalls, tiny steps.

python benchmarks/rule_thresholds.py --json benchmarks/results/rule_thresholds.json
"""

from __future__ import annotations

from typing import Any

from harness import argument_parser, print_table
from planted.known_times import BATCH, FEATURES, cached, prefetched, ready, serial, sleep
from results_file import save

STEPS = 300
STEP_S, SLOW_S, QUICK_S = 0.01, 0.03, 0.002
TINY_STEPS = 3200
SEVERAL = 8


def model(step_s: float = 0.0, **options: Any) -> Any:
    """Returns a model that computes next to nothing, or sleeps in each step."""
    import keras
    import tensorflow as tf

    class Sleep(keras.layers.Layer):
        def call(self, inputs):
            needed = tf.data.Dataset.from_tensors(0.0 * tf.reduce_sum(inputs)).apply(sleep(step_s))
            return inputs + tf.data.experimental.get_single_element(needed)

    layers = [Sleep()] if step_s else []
    built = keras.Sequential([keras.Input((FEATURES,)), *layers, keras.layers.Dense(1)])
    built.compile("sgd", "mse", jit_compile=False, **options)
    return built


def fit(built: Any, dataset: Any) -> Any:
    """Returns what `Monitor` measured of one epoch."""
    import keras_gpukit as gpukit

    monitor = gpukit.Monitor(None)
    built.fit(dataset, verbose=0, callbacks=[monitor])
    return monitor.summary


def sampled_stall(step_s: float, batch_s: float) -> dict[str, float]:
    """Returns the stall with several steps per execution, as reported and from step times.

    A starved step takes as long as its batch; what it computes takes as long as with ready batches.
    """
    built = model(step_s, steps_per_execution=SEVERAL)
    ready_s = fit(built, ready(SEVERAL).cache().repeat(STEPS // SEVERAL)).step_time_s
    starved = fit(built, serial(STEPS, batch_s))
    return {
        "step_ms": ready_s * 1e3,
        "starved_step_ms": starved.step_time_s * 1e3,
        "from_step_times": 1 - ready_s / starved.step_time_s,
        "reported": starved.input.stall_fraction,
    }


def main() -> None:
    arguments = argument_parser(__doc__).parse_args()
    runs = {
        "stalled, prefetched": (prefetched(STEPS, SLOW_S), STEP_S),
        "stalled, serial": (serial(STEPS, SLOW_S), STEP_S),
        "stalled, cached": (cached(STEPS, SLOW_S).prefetch(2), STEP_S),
        "not stalled, prefetched": (prefetched(STEPS, QUICK_S), STEP_S),
        "not stalled, serial": (serial(STEPS, QUICK_S), STEP_S),
        "ready batches": (ready(STEPS).cache(), STEP_S),
    }
    rows = {}
    for name, (dataset, step_s) in runs.items():
        measured = fit(model(step_s), dataset).input
        rows[name] = {
            "buffered_batches": measured.buffered_batches,
            "wait_ms": measured.wait_s * 1e3,
            "stall_fraction": measured.stall_fraction,
        }
    sampled = [
        sampled_stall(step_s, times * step_s)
        for step_s in (0.0015, 0.003, 0.006, 0.015)
        for times in (3, 5, 8)
    ]
    tiny = {}
    for steps_per_execution in (1, 32):
        built = model(steps_per_execution=steps_per_execution)
        # From memory: nothing but the step is left.
        batches = ready(1).repeat(TINY_STEPS).prefetch(64)
        fit(built, batches.take(64))
        tiny[str(steps_per_execution)] = fit(built, batches).step_time_s * 1e3
    print_table(
        f"{STEPS} steps of {STEP_S * 1e3:g} ms, batches of {BATCH} examples",
        ["pipeline", "buffered batches", "wait per step", "stall"],
        (
            [
                name,
                f"{row['buffered_batches']:.2f}",
                f"{row['wait_ms']:.2f} ms",
                f"{row['stall_fraction']:.1%}",
            ]
            for name, row in rows.items()
        ),
        *(
            f"{SEVERAL} steps of {row['step_ms']:.1f} ms per execution: stall "
            f"{row['reported']:.1%}, by step times {row['from_step_times']:.1%}"
            for row in sampled
        ),
        *(f"{spe} steps per execution: {step_ms:.2f} ms a step" for spe, step_ms in tiny.items()),
    )
    if arguments.json:
        save(arguments.json, __file__, pipelines=rows, sampled=sampled, tiny_step_ms=tiny)


if __name__ == "__main__":
    main()
