"""Passes the model, the examples and the device settings to a trial process."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_gpukit.configure.apply import apply
from keras_gpukit.records.setup import Action
from keras_gpukit.sensors.installation import read_machine, read_state
from keras_gpukit.trials.batch_sizes.examples import Examples
from keras_gpukit.trials.checks import check_one_device

_FILE = "model.keras"


@dataclass(frozen=True)
class ProcessSettings:
    """Settings of TensorFlow and Keras in a process, which a new process does not inherit."""

    actions: tuple[Action, ...]
    threads: tuple[int, int]

    @classmethod
    def of_this_process(cls) -> ProcessSettings:
        """Reads the settings of this process."""
        state = read_state()
        names = ["soft_placement", "jit", "tf32", "dtype_policy", "visible_gpus"]
        names += ["deterministic"] if state.deterministic else []
        settings = {name: getattr(state, name) for name in names}
        actions = [Action(name, value, "") for name, value in settings.items() if value is not None]
        for gpu in state.visible_gpus:
            limits, grows = state.memory_limit_mib[gpu], state.growth[gpu]
            if limits:
                actions.append(Action("memory_limit_mib", limits, "", gpus=(gpu,)))
            elif grows:
                actions.append(Action("memory_growth", True, "", gpus=(gpu,)))
        return cls(tuple(actions), _threads())

    def make(self) -> None:
        """Makes these settings in this process, before TensorFlow starts its devices."""
        import tensorflow as tf

        apply(self.actions, read_machine())
        if _threads() != self.threads:
            intra, inter = self.threads
            tf.config.threading.set_intra_op_parallelism_threads(intra)
            tf.config.threading.set_inter_op_parallelism_threads(inter)


def _threads() -> tuple[int, int]:
    import tensorflow as tf

    threading = tf.config.threading
    return (
        threading.get_intra_op_parallelism_threads(),
        threading.get_inter_op_parallelism_threads(),
    )


def check_importable(argument: str, function: Callable[..., Any]) -> None:
    """Checks that another process can import a function."""
    try:
        pickle.dumps(function)
    except Exception as error:
        raise ValueError(
            f"`{argument}`, a function, must be one that another process can import: define it "
            "with def at the top level of a module, and not within a function or as a "
            f"lambda. Received: {argument}={function!r} ({error})"
        ) from error


@dataclass(frozen=True)
class TrialJob:
    """All that a trial process needs to train the model. It can be pickled.

    Attributes:
        build: Function that makes the compiled model; None if the model is loaded from `saved`.
        saved: Content of the saved model's file; None if `build` makes the model.
        compilation: Keras' configuration of the compilation; None if it is loaded with the model.
        examples: Examples that batches are made of.
        settings: Settings of TensorFlow and Keras in the process that runs the search.
    """

    build: Callable[[], Any] | None
    saved: bytes | None
    compilation: Any
    examples: Examples
    settings: ProcessSettings

    @classmethod
    def of(cls, model: Any, examples: Examples) -> TrialJob:
        """Returns a job for a model, or a function that makes one."""
        import keras

        settings = ProcessSettings.of_this_process()
        if isinstance(model, keras.Model):
            return cls(None, *_saved(model), examples, settings)
        check_importable("model", model)
        return cls(model, None, None, examples, settings)

    def model(self) -> Any:
        """Makes or loads the compiled model."""
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

        with tempfile.TemporaryDirectory(prefix="keras_gpukit-") as folder:
            path = Path(folder, _FILE)
            path.write_bytes(self.saved or b"")
            # The caller has just saved this model, so any code in it is the caller's own.
            model = load_model(path, compile=self.compilation is None, safe_mode=False)
        if self.compilation is not None:
            model.compile(**deserialize_keras_object(self.compilation, safe_mode=False))
        return model


def _saved(model: Any) -> tuple[bytes, Any]:
    """Returns the content of a model's file, and the configuration of its compilation.

    The configuration is None if the model's class has methods of its own for compiling or loading.
    """
    import keras

    try:
        with tempfile.TemporaryDirectory(prefix="keras_gpukit-") as folder:
            path = Path(folder, _FILE)
            model.save(path)
            saved = path.read_bytes()
        compilation = model.get_compile_config()
        pickle.dumps(compilation)
    except Exception as error:
        raise ValueError(
            "`model` must be one that Keras can save, as trials in processes of their own "
            "load it there; give a function that makes it instead. "
            f"Received: a model named {model.name!r} ({type(error).__name__}: {error})"
        ) from error
    is_of_keras = all(
        getattr(type(model), name) is getattr(keras.Model, name)
        for name in ("compile", "get_compile_config", "compile_from_config")
    )
    return saved, compilation if compilation and is_of_keras else None
