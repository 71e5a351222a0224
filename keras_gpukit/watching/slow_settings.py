"""Reads the settings of a process that can slow a run.

Private names, seen on TensorFlow 2.21: `debug_mode.DEBUG_MODE` of tf.data, the attributes
`check_numerics_callback` and `dumping_callback` of the `_state` of their modules, and
`profiler_v2._profiler`; on Keras 3.15, `_start_batch` and `_stop_batch` of its `TensorBoard`. A
setting whose name is missing counts as not set.
"""

from __future__ import annotations

import os
import sys
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

from keras_gpukit.records.environment import RUN_FUNCTIONS_EAGERLY
from keras_gpukit.rules.setup import settings
from keras_gpukit.rules.whole_run.time_parts import TENSORBOARD, TENSORBOARD_DEFAULTS
from keras_gpukit.sensors.tf_private import is_deterministic
from keras_gpukit.watching.call_frame import callbacks_of_fit


def slow_settings() -> dict[str, str]:
    """Returns settings of this process that can slow a run, by their key in `rules.settings`."""
    calls: dict[str, str] = {}
    for call, is_set in _calls().items():
        with suppress(AttributeError, ImportError):
            if is_set():
                calls[call] = call
    return calls | settings.slow_variables(os.environ) | _of_tensorboard()


def _of_tensorboard() -> dict[str, str]:
    """Returns the arguments that take time of the `TensorBoard` callbacks of the running `fit`."""
    import keras

    given: dict[str, str] = {}
    for callback in callbacks_of_fit():
        if isinstance(callback, keras.callbacks.TensorBoard):
            profiled = (getattr(callback, f"_{each}_batch", 0) for each in ("start", "stop"))
            values = {**vars(callback), "profile_batch": tuple(profiled)}
            for name, default in TENSORBOARD_DEFAULTS.items():
                if (value := values.get(name, default)) not in (default, (0, 0)):
                    given[f"{TENSORBOARD}.{name}"] = f"{name}={value!r}"
    return given


def _calls() -> dict[str, Callable[[], Any]]:
    import tensorflow as tf

    def private(module: str) -> Any:
        return import_module(f"tensorflow.python.{module}")

    def debugs(name: str) -> bool:
        return hasattr(private(f"debug.lib.{name}")._state, name)

    threads = tf.config.threading
    return {
        RUN_FUNCTIONS_EAGERLY: tf.config.functions_run_eagerly,
        settings.DEBUG_MODE: lambda: private("data.ops.debug_mode").DEBUG_MODE,
        settings.DUMP: lambda: debugs("dumping_callback"),
        settings.CHECK_NUMERICS: lambda: debugs("check_numerics_callback"),
        settings.ACTIVE_PROFILER: lambda: private("profiler.profiler_v2")._profiler,
        settings.PLACEMENT_LOG: tf.debugging.get_log_device_placement,
        settings.DETERMINISM: is_deterministic,
        settings.ONE_INTRA_THREAD: lambda: threads.get_intra_op_parallelism_threads() == 1,
        settings.TRACE: sys.gettrace,
        settings.PROFILE: sys.getprofile,
        settings.TRACEMALLOC: tracemalloc.is_tracing,
        settings.DEV_MODE: lambda: sys.flags.dev_mode,
        settings.DEBUG_BUILD: lambda: hasattr(sys, "gettotalrefcount"),
    }
