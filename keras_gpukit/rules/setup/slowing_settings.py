"""Settings that are made for debugging or turn fast code off, and whether they slow a run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from keras_gpukit.records.environment import RUN_FUNCTIONS_EAGERLY, Environment
from keras_gpukit.records.finding import Advice, Saving, Severity
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.steps import TimeBreakdown
from keras_gpukit.rules.compute.profile_shares import eager_s
from keras_gpukit.rules.rule import Outcome, Share, advise, seconds
from keras_gpukit.rules.savings import of_run, severity
from keras_gpukit.rules.whole_run.time_parts import LOOP_S, NOTABLE_FRACTION, TimeRule

Slows = Literal[
    "steps",
    "steps and tracing",
    "GPU steps",
    "CPU steps",
    "CPU steps on one core",
    "eager steps",
    "input",
    "Python code",
    "start",
]


@dataclass(frozen=True)
class Setting:
    """One setting.

    Attributes:
        slows: Part of a run that it slows; it costs nothing where that part takes little time.
        does: Effect, in words that follow its name.
        undo: Change that removes it; "" for an environment variable, which is to be unset.
        values: Pattern of an environment variable's values that slow a run.
        is_choice: Whether it is often chosen on purpose, so that it is only a remark.
    """

    slows: Slows
    does: str
    undo: str = ""
    values: str = "1|[Tt]rue"
    is_choice: bool = False


RUN_EAGERLY = "compile(run_eagerly=True)"
DEBUG_MODE = "tf.data.experimental.enable_debug_mode()"
CHECK_NUMERICS = "tf.debugging.enable_check_numerics()"
DUMP = "tf.debugging.experimental.enable_dump_debug_info()"
PLACEMENT_LOG = "tf.debugging.set_log_device_placement(True)"
DETERMINISM = "tf.config.experimental.enable_op_determinism()"
ACTIVE_PROFILER = "tf.profiler.experimental.start()"
ONE_INTRA_THREAD = "tf.config.threading.set_intra_op_parallelism_threads(1)"
TRACE, PROFILE, TRACEMALLOC = "sys.settrace()", "sys.setprofile()", "tracemalloc.start()"
NPZ = "np.load() of an .npz file"
HDF5 = "an HDF5 file in compressed chunks"
DEV_MODE, DEBUG_BUILD = "python -X dev", "A debug build of Python"

_EAGER = "starts each operation of a step from Python"
_LOGS = "logs what TensorFlow does within steps"
_DETERMINISTIC = "takes kernels that are slower, for equal results"
_ONE_CORE = "computes each operation on one core"
_FOLLOWED = "slows Python code: a debugger, coverage or profiler"
_CHECKED = "slows Python code by its checks"
_ALONE = "run without it"

SETTINGS: dict[str, Setting] = {
    RUN_EAGERLY: Setting("steps", _EAGER, "`compile(run_eagerly=False)`"),
    RUN_FUNCTIONS_EAGERLY: Setting("steps", _EAGER, "`tf.config.run_functions_eagerly(False)`"),
    DEBUG_MODE: Setting("input", "runs tf.data serially in Python", f"remove `{DEBUG_MODE}`"),
    NPZ: Setting(
        "input",
        "reads a whole array of its .npz file again each time",
        "take the array out of the file once, in `__init__`: `np.load(path)['x']`",
    ),
    HDF5: Setting(
        "input",
        "unpacks a whole one to read an example",
        "read it into memory once, in `__init__`: `file['x'][:]`, or, if it is too large, write it "
        "with `chunks=(1, ...)`; threads (`workers=...`) wait for h5py's one lock",
    ),
    DUMP: Setting("steps and tracing", "writes each operation's results", f"remove `{DUMP}`"),
    CHECK_NUMERICS: Setting(
        "steps and tracing", "checks each tensor for NaN", f"remove `{CHECK_NUMERICS}`"
    ),
    ACTIVE_PROFILER: Setting(
        "steps", "records every step", "`tf.profiler.experimental.stop()` after ten to fifty steps"
    ),
    PLACEMENT_LOG: Setting(
        "eager steps", "logs each operation of a step", f"remove `{PLACEMENT_LOG}`"
    ),
    "TF_CPP_MAX_VLOG_LEVEL": Setting("steps", _LOGS, values=r"[1-9]\d*"),
    "TF_CPP_VMODULE": Setting("steps", _LOGS, values=r".*=[1-9].*"),
    "CUDA_LAUNCH_BLOCKING": Setting("GPU steps", "makes the host wait for each GPU kernel"),
    "TF_CUDNN_USE_AUTOTUNE": Setting(
        "GPU steps", "keeps cuDNN from its fastest algorithms", values="0|[Ff]alse"
    ),
    "NVIDIA_TF32_OVERRIDE": Setting(
        "GPU steps", "keeps float32 products off the Tensor Cores", values="0"
    ),
    DETERMINISM: Setting("GPU steps", _DETERMINISTIC, f"remove `{DETERMINISM}`", is_choice=True),
    "TF_DETERMINISTIC_OPS": Setting("GPU steps", _DETERMINISTIC, is_choice=True),
    "TF_ENABLE_ONEDNN_OPTS": Setting(
        "CPU steps", "turns oneDNN's kernels off", values="0|[Ff]alse", is_choice=True
    ),
    ONE_INTRA_THREAD: Setting("CPU steps on one core", _ONE_CORE, f"remove `{ONE_INTRA_THREAD}`"),
    "TF_NUM_INTRAOP_THREADS": Setting("CPU steps on one core", _ONE_CORE),
    TRACE: Setting("Python code", _FOLLOWED, _ALONE),
    PROFILE: Setting("Python code", _FOLLOWED, _ALONE),
    TRACEMALLOC: Setting("Python code", "notes each of Python's allocations", _ALONE),
    DEV_MODE: Setting("Python code", _CHECKED, _ALONE),
    DEBUG_BUILD: Setting("Python code", _CHECKED, "use a release build"),
    "XLA_FLAGS": Setting("start", "has XLA write what it compiles", values=".*--xla_dump_to=.*"),
    "TF_XLA_FLAGS": Setting(
        "start", "compiles parts of all graphs", values=".*--tf_xla_auto_jit=[12].*"
    ),
    "TF_DUMP_GRAPH_PREFIX": Setting("start", "writes graphs to files", values=".+"),
}
"""All settings, the costliest first. Keys are calls as a user writes them, or variables."""


def slow_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment variables that can slow a run, by name, each as "NAME=value"."""
    return {
        name: f"{name}={environment[name]}"
        for name, setting in SETTINGS.items()
        if name in environment and re.fullmatch(setting.values, environment[name])
    }


def in_effect(environment: Environment) -> dict[str, Setting]:
    """Returns the settings that are in effect in a run, the costliest first."""
    keys = {*environment.settings, *((RUN_EAGERLY,) if environment.run_eagerly else ())}
    return {key: setting for key, setting in SETTINGS.items() if key in keys}


def written(environment: Environment, key: str) -> str:
    """Returns a setting as the user writes it."""
    return environment.settings.get(key, key)


def undone(settings: Mapping[str, Setting]) -> tuple[Advice, ...]:
    """Returns how to undo settings, a line each."""
    return tuple(advise(setting.undo or f"unset `{key}`") for key, setting in settings.items())


IDLE_CORES = 0.7
NOT_MEASURED = "compare a short run without it: this run does not show what it costs"
_NAMES: dict[Slows, str] = {
    "start": "the first step",
    "steps and tracing": "steps, the first one included",
    "Python code": "Python code",
}


class SlowSettings(TimeRule):
    """Settings in effect that slow a part of the run which takes at least a tenth of its time."""

    code = "slow-settings"
    title = "A setting slows the run"
    tried_by = ("graph", "jit")
    of_the_time_in = Share("{value} of the run's time is spent in {of}")

    def judge_parts(self, summary: RunSummary, parts: TimeBreakdown) -> Outcome:
        slowed_s, least_s = _slowed_s(summary, parts), NOTABLE_FRACTION * parts.wall_s
        found = {
            key: setting
            for key, setting in in_effect(summary.environment).items()
            if slowed_s.get(setting.slows, 0.0) >= least_s
        }
        if not found:
            return None
        key, setting = next(iter(found.items()))
        spent_s = slowed_s[setting.slows]
        saving = _saving(summary, setting.slows, spent_s)
        measured = saving is not None and saving.low_s > 0
        took = (
            f": {seconds(saving.low_s)} of {seconds(saving.of_s)} s" if saving and measured else ""
        )
        level: Severity = severity(saving, summary) if measured else "warning"
        return self.find(
            "info" if setting.is_choice else level,
            self.of_the_time_in(spent_s / parts.wall_s, _NAMES.get(setting.slows, "steps")),
            advice=undone(found) if saving else (*undone(found), NOT_MEASURED),
            saving=saving,
            title=f"{written(summary.environment, key)} {setting.does}{took}",
        )


def _slowed_s(summary: RunSummary, parts: TimeBreakdown) -> dict[Slows, float]:
    """Returns the seconds of each part of a run that settings slow."""
    environment, contention = summary.environment, summary.contention
    steps_s = parts.compute_s or 0.0
    on_cpu_s = 0.0 if environment.gpus else steps_s
    eagerly_s = steps_s if environment.runs_eagerly else 0.0
    busy = contention.cores_busy_fraction if contention else None
    stages = summary.pipeline.stages if summary.pipeline else ()
    makes_batches_s = parts.input_s if any(stage.work == "python" for stage in stages) else None
    callbacks_s = max(parts.callbacks_s - LOOP_S * (summary.steps or 0), 0.0)
    return {
        "steps": steps_s,
        "steps and tracing": steps_s + parts.first_step_s + parts.tracing_s,
        "GPU steps": steps_s - on_cpu_s,
        "CPU steps": on_cpu_s,
        "CPU steps on one core": on_cpu_s if busy is not None and busy < IDLE_CORES else 0.0,
        "eager steps": eagerly_s,
        "input": parts.unknown_s if parts.input_s is None else 0.0,
        "Python code": eagerly_s + callbacks_s + (makes_batches_s or 0.0),
        "start": parts.first_step_s + parts.tracing_s,
    }


def _saving(summary: RunSummary, slows: Slows, spent_s: float) -> Saving | None:
    if slows == "steps" and summary.environment.runs_eagerly:
        lost_s = eager_s(summary)
        return lost_s and of_run(summary, *lost_s, basis="Python in eager steps")
    if slows == "CPU steps on one core":
        spent_s *= 1 - 1 / (summary.environment.cpu_count or 1)
    elif slows != "start":
        return None
    return of_run(summary, 0.0, spent_s, basis=_NAMES.get(slows, "idle cores"), upper_bound=True)
