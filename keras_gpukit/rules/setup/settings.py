"""Settings that can slow a run, what they slow, and how to undo them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from keras_gpukit.records.environment import RUN_FUNCTIONS_EAGERLY, Environment
from keras_gpukit.records.finding import Advice
from keras_gpukit.rules.rule import advise

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
    return {key: each for key, each in SETTINGS.items() if key in keys}


def written(environment: Environment, key: str) -> str:
    """Returns a setting as the user writes it."""
    return environment.settings.get(key, key)


def undone(settings: Mapping[str, Setting]) -> tuple[Advice, ...]:
    """Returns how to undo settings, a line each."""
    return tuple(advise(each.undo or f"unset `{key}`") for key, each in settings.items())
