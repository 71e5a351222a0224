"""Trains a tiny model under a `Monitor` and prints what its record lacks, as `doctor` asks.

Private names may all be there and a measurement still find nothing, as when a new Keras calls its
step in another way. Run as a program, since it must see no GPU, which others may be using.

Command line: python -m keras_gpukit.cli.tried_fit
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keras_gpukit.records.run import RunSummary

STEPS, BATCH = 40, 8
AT_MOST_S = 120.0
_ENVIRONMENT = {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}


class TriedFit:
    """A process that trains meanwhile."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __spec__.name],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **_ENVIRONMENT},
            text=True,
        )

    def lacks(self) -> tuple[str, ...] | None:
        """Returns the measurements that found nothing; None if the model could not be trained."""
        try:
            output, _ = self._process.communicate(timeout=AT_MOST_S)
            return tuple(json.loads(output.splitlines()[-1]))
        except (subprocess.TimeoutExpired, ValueError, IndexError):
            return None
        finally:
            self.stop()

    def stop(self) -> None:
        """Ends the process, if it still runs."""
        self._process.kill()
        self._process.wait()


def lacking(
    summary: RunSummary | None, used_variables: int, layers: tuple[str, ...]
) -> tuple[str, ...]:
    """Returns the measurements that found nothing in a fit in which all have something to find."""
    if summary is None:
        return ("all of them",)
    wait, placement = summary.input, summary.operations
    rows = placement.rows if placement else ()
    named = {row.layer.rpartition("/")[2] for row in rows if row.layer}
    is_there = {
        "input wait": wait is not None and wait.wait_s is not None,
        "input stall per stage": summary.pipeline is not None and bool(summary.pipeline.stages),
        "placement": placement is not None and placement.unknown_because is None,
        "layers of operations": set(layers) <= named,
        "examples per second": bool(summary.throughput and summary.throughput.examples_per_s),
        "memory prediction": used_variables > 0,
    }
    return tuple(name for name, found in is_there.items() if not found)


def main() -> int:
    """Trains, and prints the names of what is lacking as JSON."""
    import keras
    import tensorflow as tf

    from keras_gpukit import Monitor
    from keras_gpukit.frameworks.tf_functions import used_variables

    model: Any = keras.Sequential(
        [keras.Input((4,)), *(keras.layers.Dense(4) for _ in range(2))], name="tried"
    )
    model.compile("sgd", "mse", jit_compile=False)
    rows = tf.random.stateless_normal((STEPS * BATCH, 4), seed=(1, 2))
    data = tf.data.Dataset.from_tensor_slices((rows, rows)).map(lambda x, y: (2 * x, y))
    monitor = Monitor(None, verbose=0)
    model.fit(data.batch(BATCH), verbose=0, callbacks=[monitor])
    layers = tuple(layer.name for layer in model.layers)
    print(json.dumps(lacking(monitor.summary, len(used_variables(model.train_function)), layers)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
