"""Utilization: `Utilization` and nvidia-smi over the same seconds, of a busy and a waiting GPU."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.gpu.judging import judge_each
from benchmarks.gpu.nvidia_smi import mean, watching
from benchmarks.gpu.own_process import try_in_own_process
from benchmarks.gpu.part import Claim, Measured, Outcome, Part

LOADS = ("busy", "waiting")
"""Steps that follow each other, and steps that wait as long as they compute."""
IDLE = 0x1
"""The bit of a clock that is lowered because the GPU is idle."""

CLAIMS = (
    Claim(
        "utilization",
        "mean utilization is that of `nvidia-smi dmon` within 5 percentage points under both loads",
        "a larger difference under either load",
    ),
    Claim(
        "loads",
        "a busy GPU has at least 90 % utilization, and a waiting one is at least 20 percentage "
        "points lower",
        "other figures, in which case utilization shows less than assumed",
    ),
    Claim(
        "power",
        "mean power is that of nvidia-smi within 5 %",
        "a larger difference under either load",
    ),
    Claim(
        "clock",
        "the mean clock of the multiprocessors is that of nvidia-smi within 5 %",
        "a larger difference under either load",
    ),
    Claim(
        "memory",
        "the most memory in use is that of nvidia-smi within 2 %",
        "a larger difference under either load",
    ),
    Claim(
        "throttling",
        "the share of readings with a lowered clock is that of nvidia-smi within 20 percentage "
        "points",
        "a larger difference under either load",
    ),
    Claim(
        "others",
        "no memory of other processes is reported on a GPU that has none, also in a container",
        "memory of others",
    ),
)


def measure(small: bool, folder: Path) -> Iterator[tuple[str, Any]]:
    """Runs both loads in one process, half a minute each."""
    figures = try_in_own_process(run_loads, 64 if small else 8192, 1.0 if small else 30.0)
    failed = figures if "error" in figures else None
    for load in LOADS:
        yield load, failed or figures[load]


def run_loads(size: int, duration_s: float) -> dict[str, Any]:
    """Fits under each load with `Utilization`, while nvidia-smi watches.

    Args:
        size: Width of the layers and examples in a batch.
        duration_s: Seconds of each load.
    """
    import keras
    import tensorflow as tf

    import keras_gpukit as gpukit

    setup = gpukit.configure_gpus(verbose=False)
    uuid = setup.devices[0].uuid if setup.devices else None
    layers = [keras.layers.Dense(size) for _ in range(2)]
    model = keras.Sequential([keras.Input((1,)), *layers, keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=False)
    batch = tf.ones((size, 1)), tf.ones((size, 1))

    class Until(keras.callbacks.Callback):
        def __init__(self, ends_s: float) -> None:
            super().__init__()
            self._ends_s = ends_s

        def on_epoch_end(self, epoch, logs=None):
            self.model.stop_training = time.monotonic() >= self._ends_s

    def fit(dataset: Any, seconds: float, *callbacks: Any) -> None:
        until = Until(time.monotonic() + seconds)
        arguments = {"steps_per_epoch": 10, "epochs": 10**6, "verbose": 0}
        model.fit(dataset.repeat(), callbacks=[*callbacks, until], **arguments)

    def waits(*batch: Any) -> Any:
        slept = tf.py_function(lambda: time.sleep(2 * step_s), [], [])
        with tf.control_dependencies([slept]):
            return tuple(map(tf.identity, batch))

    steady = tf.data.Dataset.from_tensors(batch)
    fit(steady, 0.0)  # traces
    start_s = time.monotonic()
    fit(steady, 0.0)
    step_s = (time.monotonic() - start_s) / 10
    figures = {}
    for load, dataset in zip(LOADS, (steady, steady.repeat().map(waits)), strict=True):
        utilization = gpukit.Utilization(None)
        with watching(uuid) as tables:
            fit(dataset, duration_s, utilization)
        figures[load] = summarize(asdict(utilization.summary), tables) | {"step_s": step_s}
    return figures


def summarize(summary: dict[str, Any], tables: dict[str, Any]) -> dict[str, Any]:
    """Returns what both report, in the same units."""
    query = tables.get("query", [])
    masks = [
        int(row["clocks_event_reasons.active"], 16)
        for row in query
        if row["clocks_event_reasons.active"].startswith("0x")
    ]
    used = [float(row["memory.used"]) for row in query if row["memory.used"].isdigit()]
    return {
        "summary": summary,
        "rows": {name: len(table) for name, table in tables.items()},
        "utilization_percent": mean(tables.get("dmon", []), "sm"),
        "power_watts": mean(query, "power.draw"),
        "sm_clock_mhz": mean(query, "clocks.sm"),
        "memory_used_max_bytes": max(used) * 2**20 if used else None,
        "throttled_fraction": (
            sum(mask & ~IDLE != 0 for mask in masks) / len(masks) if masks else None
        ),
    }


def judge_agreement(name: str, *, relative: float = 0.0, absolute: float = 0.0) -> Any:
    """Returns a judge of one figure under both loads."""

    def judge_one(*loads: dict[str, Any]) -> Outcome:
        pairs = [(_gpu(load).get(name), load[name]) for load in loads]
        if any(figure is None for pair in pairs for figure in pair):
            return Outcome(None, "nvidia-smi or NVML does not report it here")
        said = "; ".join(
            f"{load}: {ours:.4g} and {theirs:.4g}"
            for load, (ours, theirs) in zip(LOADS, pairs, strict=True)
        )
        close = all(abs(a - b) <= max(absolute, relative * b) for a, b in pairs)
        return Outcome(close, f"`{name}` of ours and of nvidia-smi, {said}.")

    return judge_one


def _gpu(load: dict[str, Any]) -> dict[str, Any]:
    return dict((load["summary"]["gpus"] or [{}])[0])


def judge_loads(*loads: dict[str, Any]) -> Outcome:
    busy, waiting = (_gpu(load).get("utilization_percent") for load in loads)
    if busy is None or waiting is None:
        return Outcome(None, "NVML does not report utilization here")
    return Outcome(
        busy >= 90 and waiting <= busy - 20,
        f"Utilization is {busy:.0f} % under the busy load, {waiting:.0f} % under the waiting one.",
    )


def judge_others(load: dict[str, Any]) -> Outcome:
    others = _gpu(load).get("memory_others_max_bytes")
    said = "nothing is reported" if others is None else f"{others / 2**20:.0f} MiB are reported"
    return Outcome(not others, f"Of the memory of other processes, {said}.")


def judge(measured: Measured) -> dict[str, Outcome]:
    """Judges what both loads show."""
    return judge_each(
        measured,
        {
            "utilization": (LOADS, judge_agreement("utilization_percent", absolute=5.0)),
            "loads": (LOADS, judge_loads),
            "power": (LOADS, judge_agreement("power_watts", relative=0.05)),
            "clock": (LOADS, judge_agreement("sm_clock_mhz", relative=0.05)),
            "memory": (LOADS, judge_agreement("memory_used_max_bytes", relative=0.02)),
            "throttling": (LOADS, judge_agreement("throttled_fraction", absolute=0.2)),
            "others": (("busy",), judge_others),
        },
    )


PART = Part(
    "utilization",
    "Does `Utilization` report what nvidia-smi reports over the same minute?",
    2.5,
    CLAIMS,
    measure,
    judge,
)
