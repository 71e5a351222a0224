"""Passes the model, the examples and the device settings to a trial process."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_gpukit.trials.batch_sizes.examples import Examples
from keras_gpukit.trials.checks import check_one_device

_MODEL, _COMPILATION, _EXAMPLES = "model.keras", "compilation.json", "examples.pickle"


@dataclass(frozen=True)
class Job:
    """All that a trial process needs to train the model.

    Attributes:
        folder: Folder with the examples, and with the saved model if `build` is None.
        build: Function that makes the compiled model; None if the model is loaded from the folder.
        devices: Device settings of the process that runs the search.
    """

    folder: Path
    build: Callable[[], Any] | None
    devices: DeviceSettings

    @classmethod
    def of(cls, folder: Path, model: Any) -> Job:
        """Returns a job for a model, or a function that makes one; `save` writes its files.

        Raises:
            ValueError: If another process cannot import the function.
        """
        import keras

        build = None if isinstance(model, keras.Model) else model
        try:
            pickle.dumps(build)
        except Exception as error:
            raise ValueError(
                "`model`, a function, must be one that another process can import: define it "
                "with def at the top level of a module, and not within a function or as a "
                f"lambda. Received: model={build!r} ({error})"
            ) from error
        return cls(folder, build, current_settings())

    def save(self, model: Any, examples: Examples) -> None:
        """Writes the examples to the folder, and the model if no function makes it.

        Raises:
            ValueError: If the model cannot be saved.
        """
        (self.folder / _EXAMPLES).write_bytes(pickle.dumps(examples))
        if self.build is not None:
            return
        try:
            model.save(self.folder / _MODEL)
            if _is_compiled_by_keras(model):
                (self.folder / _COMPILATION).write_text(json.dumps(model.get_compile_config()))
        except Exception as error:
            raise ValueError(
                "`model` must be one that Keras can save, as trials in processes of their own "
                "load it there; give a function that makes it instead. "
                f"Received: a model named {model.name!r} ({type(error).__name__}: {error})"
            ) from error

    def examples(self) -> Examples:
        """Reads the examples from the folder."""
        examples: Examples = pickle.loads((self.folder / _EXAMPLES).read_bytes())
        return examples

    def model(self) -> Any:
        """Makes or loads the compiled model.

        Raises:
            ValueError: If the function does not return a Keras model, the model is not compiled, or
                the model is on several replicas.
        """
        import keras

        if self.build is not None:
            model = self.build()
            if not isinstance(model, keras.Model) or not model.compiled:
                raise ValueError(
                    "`model`, a function, must return a compiled keras.Model. "
                    f"Received: {self.build!r}, which returns {model!r}"
                )
            check_one_device(model, "find the batch size of a replica")
            return model
        model = self._load()
        if not model.compiled:
            raise ValueError(
                "`model` must be one whose compilation Keras saves with it; give a function that "
                f"makes it instead. Received: a model named {model.name!r}"
            )
        return model

    def _load(self) -> Any:
        """Loads the model with an optimizer that has no slots yet, as in a new program.

        If Keras loads the optimizer, it makes the slots at once. They then take memory before the
        input does, and larger batches fit than in a new program.
        """
        from keras.saving import deserialize_keras_object, load_model

        compilation, path = self.folder / _COMPILATION, self.folder / _MODEL
        # The caller has just saved this model, so any code in it is the caller's own.
        if not compilation.exists():
            return load_model(path, safe_mode=False)
        model = load_model(path, compile=False, safe_mode=False)
        config = json.loads(compilation.read_text())
        model.compile(**deserialize_keras_object(config, safe_mode=False))
        return model


def _is_compiled_by_keras(model: Any) -> bool:
    """Whether the model's class uses Keras' own methods for compiling, saving and loading."""
    import keras

    return bool(model.get_compile_config()) and all(
        getattr(type(model), name) is getattr(keras.Model, name)
        for name in ("compile", "get_compile_config", "compile_from_config")
    )


@dataclass(frozen=True)
class DeviceSettings:
    """Settings of TensorFlow and Keras that a new process does not inherit.

    Attributes:
        gpus: Index of each visible GPU.
        grows: Whether memory growth is enabled, for each visible GPU.
        limits_mib: Memory limits in MiB of the logical devices of each visible GPU. None means no
            limit; the tuple is empty if no logical devices are configured.
        threads: Number of intra-op and inter-op threads; 0 lets TensorFlow choose.
        tensor_float_32: Whether TensorFloat-32 is enabled.
        policy: Name of Keras' global dtype policy.
    """

    gpus: tuple[int, ...]
    grows: tuple[bool, ...]
    limits_mib: tuple[tuple[int | None, ...], ...]
    threads: tuple[int, int]
    tensor_float_32: bool
    policy: str

    def apply(self) -> None:
        """Applies the settings if they differ; call it before TensorFlow starts its devices."""
        import keras
        import tensorflow as tf

        if current_settings() == self:
            return
        intra, inter = self.threads
        tf.config.threading.set_intra_op_parallelism_threads(intra)
        tf.config.threading.set_inter_op_parallelism_threads(inter)
        tf.config.experimental.enable_tensor_float_32_execution(self.tensor_float_32)
        keras.config.set_dtype_policy(self.policy)
        physical = tf.config.list_physical_devices("GPU")
        chosen = [physical[index] for index in self.gpus]
        tf.config.set_visible_devices(chosen, "GPU")
        for gpu, grows, limits in zip(chosen, self.grows, self.limits_mib, strict=True):
            if limits:
                parts = [tf.config.LogicalDeviceConfiguration(memory_limit=each) for each in limits]
                tf.config.set_logical_device_configuration(gpu, parts)
            elif grows:
                tf.config.experimental.set_memory_growth(gpu, True)

    @property
    def leave_memory(self) -> bool:
        """Whether these settings leave memory of each GPU to other processes."""
        pairs = zip(self.grows, self.limits_mib, strict=True)
        return all(grows or (limits and None not in limits) for grows, limits in pairs)


def current_settings() -> DeviceSettings:
    """Returns the settings of this process, without starting TensorFlow's devices."""
    import keras
    import tensorflow as tf

    physical = tf.config.list_physical_devices("GPU")
    gpus = tf.config.get_visible_devices("GPU")
    forced = os.environ.get("TF_FORCE_GPU_ALLOW_GROWTH", "").lower() == "true"
    return DeviceSettings(
        gpus=tuple(physical.index(gpu) for gpu in gpus),
        grows=tuple(forced or bool(tf.config.experimental.get_memory_growth(gpu)) for gpu in gpus),
        limits_mib=tuple(
            tuple(
                part.memory_limit for part in tf.config.get_logical_device_configuration(gpu) or ()
            )
            for gpu in gpus
        ),
        threads=(
            tf.config.threading.get_intra_op_parallelism_threads(),
            tf.config.threading.get_inter_op_parallelism_threads(),
        ),
        tensor_float_32=tf.config.experimental.tensor_float_32_execution_enabled(),
        policy=keras.config.dtype_policy().name,
    )
