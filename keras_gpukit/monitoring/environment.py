"""Reads the versions, devices and execution settings of the current run."""

from __future__ import annotations

import dis
import math
import os
import platform
import sys
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import CodeType, MappingProxyType
from typing import Any

import numpy as np
from numpy.lib.npyio import NpzFile

from keras_gpukit.distributed.clusters import this_worker
from keras_gpukit.frameworks import tf_runtime
from keras_gpukit.frameworks.keras_models import profiled_batches
from keras_gpukit.input.pipelines.places import place
from keras_gpukit.layer_names import layers_in
from keras_gpukit.memory.model_state import size_of
from keras_gpukit.monitoring.call_frame import arrays_of_fit, callbacks_of_fit, data_of_fit
from keras_gpukit.monitoring.script_globals import place_of
from keras_gpukit.records.environment import (
    RUN_FUNCTIONS_EAGERLY,
    Environment,
    FrozenLayers,
    Padding,
)
from keras_gpukit.rules.known_faults import ON_EPOCH_BEGIN
from keras_gpukit.rules.setup import slowing_settings
from keras_gpukit.rules.whole_run.hangs import MANY_COPIES, TIME_DISTRIBUTED, UNROLLED
from keras_gpukit.rules.whole_run.time_parts import SAVE_FREQ, TENSORBOARD, TENSORBOARD_DEFAULTS
from keras_gpukit.sensors.devices import visible_gpus
from keras_gpukit.sensors.interpreter import usable_cores
from keras_gpukit.version import __version__

LARGE_TABLE_BYTES = 16 * 2**20
"""Least size of an embedding's table whose update may take much of a step; our choice."""
MOST_EXAMPLES = 1000
"""About how many examples are looked at; our choice. It takes some milliseconds."""


def process_environment(versions: Mapping[str, str] = MappingProxyType({})) -> Environment:
    """Reads the environment of this process, without that of a model."""
    import tensorflow as tf

    return Environment(
        versions={
            "python": platform.python_version(),
            **versions,
            "tensorflow": tf.__version__,
            "keras_gpukit": __version__,
        },
        gpus=visible_gpus(),
        cuda_build=tf.sysconfig.get_build_info()["is_cuda_build"],
        cpu_count=usable_cores(),
    )


def read_environment(model: Any) -> Environment:
    """Reads the environment in which a model runs."""
    import keras
    import tensorflow as tf

    strategy = getattr(model, "distribute_strategy", None)
    return replace(
        process_environment({"keras": keras.__version__}),
        precision=model.dtype_policy.name,
        jit_compile=bool(getattr(model, "jit_compile", False)),
        run_eagerly=bool(getattr(model, "run_eagerly", False)),
        steps_per_execution=getattr(model, "steps_per_execution", 1),
        strategy=_strategy_name(strategy),
        replicas=None if strategy is None else strategy.num_replicas_in_sync,
        worker=this_worker(model),
        tf32=tf.config.experimental.tensor_float_32_execution_enabled(),
        # None before the model is built.
        trainable_bytes=sum(map(size_of, model.trainable_variables)) or None,
        settings=slow_settings() | _copied_over_time(model),
        preprocessing=_preprocessing(model),
        padding=_padding(model),
        frozen=_frozen(model),
    )


def _preprocessing(model: Any) -> tuple[str, ...]:
    """Returns the names of the model's preprocessing layers that compute more than a product."""
    import keras

    (prepares,) = keras.layers.Rescaling.__bases__  # private; such layers have it in common
    cheap = (keras.layers.Rescaling, keras.layers.Normalization)
    return tuple(
        layer.name
        for layer in layers_in(model)
        if isinstance(layer, prepares) and not isinstance(layer, cheap)
    )


def large_tables(model: Any) -> bool:
    """Whether a model has an embedding whose table is large, so that updating it may take long."""
    with suppress(AttributeError, TypeError):  # a class of its own may lack them
        sizes = (embedding.input_dim * embedding.output_dim for embedding in _embeddings(model))
        return any(4 * size >= LARGE_TABLE_BYTES for size in sizes)
    return False


def _padding(model: Any) -> Padding | None:
    """Returns how far the running fit's examples are padded with zeros; None for other data."""
    arrays = arrays_of_fit()
    if arrays is None or arrays[0].ndim != 2 or arrays[0].dtype.kind not in "iu":
        return None
    if not _embeddings(model):
        return None
    count, width = arrays[0].shape
    if not count or not width:
        return None
    is_used = arrays[0][:: math.ceil(count / MOST_EXAMPLES)] != 0
    zeros = (mask.argmax(axis=1) for mask in (is_used, is_used[:, ::-1]))
    ends = [np.where(is_used.any(axis=1), padding, width) for padding in zeros]
    lengths = width - max(ends, key=np.mean)
    return Padding(width, float(lengths.mean()), int(np.percentile(lengths, 99)))


def _frozen(model: Any) -> FrozenLayers | None:
    """Returns a model's first layers if they have weights and none of these is trained."""
    import keras

    if not isinstance(model, (keras.Sequential, keras.Function)):
        return None  # its layers are in no known order
    first: list[Any] = []
    for layer in model.layers:
        if layer.trainable_weights or any(map(_draws, (layer, *layers_in(layer)))):
            tables, entry = keras.layers.Embedding, keras.layers.InputLayer
            has_weights = any(frozen.weights and not isinstance(frozen, tables) for frozen in first)
            names = tuple(frozen.name for frozen in first if not isinstance(frozen, entry))
            return FrozenLayers(names, arrays_of_fit() is not None) if has_weights else None
        first.append(layer)
    return None  # nothing is trained


def _draws(layer: Any) -> bool:
    """Whether a layer draws numbers at random, such as dropout or augmentation."""
    import keras

    return any(isinstance(value, keras.random.SeedGenerator) for value in vars(layer).values())


def _embeddings(model: Any) -> list[Any]:
    import keras

    return [layer for layer in layers_in(model) if isinstance(layer, keras.layers.Embedding)]


def _copied_over_time(model: Any) -> dict[str, str]:
    """Returns how often layers are copied over a static time axis, if often.

    `TimeDistributed` copies its layer, and a recurrent layer with `unroll=True` its cell.
    """
    import keras

    layers = tuple(layers_in(model))
    unrolled = [layer for layer in layers if getattr(layer, "unroll", False) is True]
    over_time = [layer for layer in layers if isinstance(layer, keras.layers.TimeDistributed)]
    for setting, copied, part in (
        (UNROLLED, unrolled, "cell"),
        (TIME_DISTRIBUTED, over_time, "layer"),
    ):
        # A layer may be called with several inputs, or with none yet.
        with suppress(AttributeError, ValueError, TypeError):
            copies = sum(layer.input.shape[1] or 0 for layer in copied)
            if copies >= MANY_COPIES:
                first, given = copied[0], "(unroll=True)" if setting == UNROLLED else ""
                made = f"{type(first).__name__}{given} ({place_of(first) or first.name})"
                return {setting: f"{made} puts {copies} copies of its {part} into the graph"}
    return {}


def _strategy_name(strategy: Any) -> str | None:
    """Returns the class name of the strategy; None for TensorFlow's default strategy."""
    name = type(strategy).__name__
    return None if strategy is None or name.startswith("_") else name


def slow_settings() -> dict[str, str]:
    """Returns settings of this process that can slow a run, by their key in `rules.settings`."""
    calls: dict[str, str] = {}
    for call, is_set in _calls().items():
        with suppress(AttributeError, ImportError):
            if is_set():
                calls[call] = call
    return calls | slowing_settings.slow_variables(os.environ) | _of_callbacks() | _of_py_dataset()


def _of_py_dataset() -> dict[str, str]:
    """Returns what in the code of the running fit's `PyDataset` slows it, or reads too early."""
    import keras

    data = data_of_fit()
    if not isinstance(data, keras.utils.PyDataset):
        return {}
    codes = {
        name: code
        for name, method in vars(type(data)).items()
        if isinstance(code := getattr(method, "__code__", None), CodeType)
    }
    loads = [
        (name, place(code.co_filename, line))
        for method, code in codes.items()
        if method not in ("__init__", "on_epoch_begin", "on_epoch_end")
        for name, line in _attributes(code, "LOAD_ATTR")
    ]
    return _archives(data, loads) | _chunked(data, loads) | _set_at_epochs(data, codes, loads)


def _archives(data: Any, loads: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Returns the archive of arrays that making a batch reads, with the first line that does."""
    is_archive = {name for name, value in vars(data).items() if isinstance(value, NpzFile)}
    lines = [f"self.{name} ({line})" for name, line in loads if name in is_archive]
    return {slowing_settings.NPZ: lines[0]} if lines else {}


def _chunked(data: Any, loads: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Returns the HDF5 file that making a batch reads, if one chunk has many examples."""
    h5py: Any = sys.modules.get("h5py")
    for name, value in vars(data).items() if h5py else ():
        with suppress(AttributeError, RuntimeError, ValueError):  # a file that is closed
            arrays = value.values() if isinstance(value, h5py.Group) else (value,)
            sized = [array for array in arrays if isinstance(array, h5py.Dataset) and array.chunks]
            largest = max(sized, key=lambda array: array.nbytes, default=None)
            lines = [line for loaded, line in loads if loaded == name]
            if lines and largest is not None and largest.compression and largest.chunks[0] > 1:
                return {
                    slowing_settings.HDF5: f"self.{name} ({lines[0]}) keeps "
                    f"{largest.chunks[0]} examples in each compressed chunk, and"
                }
    return {}


def _set_at_epochs(
    data: Any, codes: Mapping[str, CodeType], loads: Sequence[tuple[str, str]]
) -> dict[str, str]:
    """Returns the lines of a `PyDataset` that read what its `on_epoch_begin` sets.

    Only if it has several workers, which call its other methods at the same time.
    """
    workers = getattr(data, "workers", 1)  # missing if the class does not call `super().__init__`
    sets = {name for name, _ in _attributes(codes.get("on_epoch_begin"), "STORE_ATTR")}
    lines = dict.fromkeys(line for name, line in loads if name in sets)
    if workers < 2 or not lines:
        return {}
    return {ON_EPOCH_BEGIN: f"sets what {', '.join(lines)} reads; workers={workers}"}


def _attributes(code: CodeType | None, operation: str) -> Iterator[tuple[str, int]]:
    """Yields each attribute that code loads or stores, with its line."""
    line = 0
    for instruction in dis.get_instructions(code) if code else ():
        positions = getattr(instruction, "positions", None)  # from Python 3.11 on
        line = (positions.lineno if positions else instruction.starts_line) or line
        if instruction.opname == operation:
            yield instruction.argval, line
    for inner in code.co_consts if code else ():  # comprehensions are functions until Python 3.12
        if isinstance(inner, CodeType):
            yield from _attributes(inner, operation)


def _of_callbacks() -> dict[str, str]:
    """Returns the arguments that take time of Keras' callbacks of the running `fit`."""
    import keras

    given: dict[str, str] = {}
    for callback in callbacks_of_fit():
        if isinstance(callback, keras.callbacks.ModelCheckpoint) and callback.save_freq != "epoch":
            given[SAVE_FREQ] = f"save_freq={callback.save_freq}"
        if isinstance(callback, keras.callbacks.TensorBoard):
            values = {**vars(callback), "profile_batch": profiled_batches(callback)}
            for name, default in TENSORBOARD_DEFAULTS.items():
                if (value := values.get(name, default)) not in (default, (0, 0)):
                    given[f"{TENSORBOARD}.{name}"] = f"{name}={value!r}"
    return given


def _calls() -> dict[str, Callable[[], Any]]:
    import tensorflow as tf

    threads = tf.config.threading
    return {
        RUN_FUNCTIONS_EAGERLY: tf.config.functions_run_eagerly,
        slowing_settings.DEBUG_MODE: tf_runtime.debugs_tf_data,
        slowing_settings.DUMP: lambda: tf_runtime.debugs_tensors("dumping_callback"),
        slowing_settings.CHECK_NUMERICS: lambda: tf_runtime.debugs_tensors(
            "check_numerics_callback"
        ),
        slowing_settings.ACTIVE_PROFILER: tf_runtime.active_profiler,
        slowing_settings.PLACEMENT_LOG: tf.debugging.get_log_device_placement,
        slowing_settings.DETERMINISM: tf_runtime.is_deterministic,
        slowing_settings.ONE_INTRA_THREAD: lambda: threads.get_intra_op_parallelism_threads() == 1,
        slowing_settings.TRACE: sys.gettrace,
        slowing_settings.PROFILE: sys.getprofile,
        slowing_settings.TRACEMALLOC: tracemalloc.is_tracing,
        slowing_settings.DEV_MODE: lambda: sys.flags.dev_mode,
        slowing_settings.DEBUG_BUILD: lambda: hasattr(sys, "gettotalrefcount"),
    }
