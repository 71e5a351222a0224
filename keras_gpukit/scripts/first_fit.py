"""Runs a script up to its first `fit`, which answers a question or is measured instead."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from keras_gpukit.frameworks import keras_models
from keras_gpukit.scripts.import_hook import ImportHook
from keras_gpukit.scripts.main_module import CannotOpenError, run_main

if TYPE_CHECKING:
    from keras_gpukit.tuning.processes import OwnProcess
    from keras_gpukit.tuning.training_changes import TrainingChange

_NO_FIT = "the script called no fit(); give one that calls Keras' fit()"
Question = Callable[[Any], None]
"""Function that is called with the callback list within `fit`, once Keras has built the model and
its optimizer. It prints the answer, or raises an exception that says why there is no answer."""


def ask_first_fit(question: Question, args: argparse.Namespace) -> str | None:
    """Runs a script up to its first `fit`, and ends it there; returns why there is no answer."""
    has_asked = False
    failed_because: str | None = _NO_FIT

    def watch_fits() -> None:
        nonlocal failed_because
        import keras

        name = keras.backend.backend()
        if name == "tensorflow":
            keras_models.on_each_list(ask)
        else:
            failed_because = f"Keras runs on {name}; only TensorFlow's memory is known"

    def ask(method: str, callback_list: Any, given: int) -> None:
        nonlocal has_asked, failed_because
        if method != "fit" or has_asked:
            return  # the question itself may run a fit
        has_asked = True
        try:
            question(callback_list)
            failed_because = None
        except Exception as error:
            failed_because = f"{type(error).__name__}: {error}"
        raise SystemExit(0 if failed_because is None else 2)

    ImportHook({"keras": watch_fits}).install()
    try:
        run_main(args.script, args.module, args.script_arguments)
    except CannotOpenError as error:
        return str(error)
    except SystemExit:
        if not has_asked:
            raise
    return failed_because


def predict(batch_size: int | None) -> Question:
    """Returns a question: how much memory do the training steps need?"""

    def question(callback_list: Any) -> None:
        from keras_gpukit.monitoring.call_frame import batch_of, first_batch_of_fit
        from keras_gpukit.reports.memory import memory_view as render
        from keras_gpukit.reports.terminal import print_anywhere
        from keras_gpukit.tuning.predict_memory import predict_of_spec

        spec, own_size = batch_of("fit")
        size = batch_size or own_size or first_batch_of_fit()
        if spec is None or size is None:
            raise ValueError("the size of its batches is not known; give --batch-size")
        print_anywhere(render(predict_of_spec(callback_list.model, spec, size)))

    return question


def find_size(max_batch_size: int | None, seconds: float) -> Question:
    """Returns a question: which batch size is the largest that fits, and which is the fastest?"""

    def question(callback_list: Any) -> None:
        from keras_gpukit.monitoring.call_frame import arrays_of_fit, data_of_fit
        from keras_gpukit.tuning.find_batch_size import find_batch_size

        find_batch_size(
            callback_list.model,
            arrays_of_fit() or data_of_fit(),
            max_batch_size=max_batch_size,
            seconds=seconds,
        )

    return question


@dataclass(frozen=True)
class TunedScript:
    """A script or module, with its arguments, that `tune` trains in trial processes."""

    script: str | None
    module: str | None
    arguments: tuple[str, ...]

    def start(self, changes: Sequence[TrainingChange], examples: float | None) -> OwnProcess:
        """Starts a process that runs the script. It imports TensorFlow when the script does."""
        # Not imported before a script runs: it would take our `__main__` for the script's.
        from multiprocessing import get_context

        from keras_gpukit.tuning.measured_fit import started

        return started(get_context("spawn"), self.train, changes, examples)

    def train(self, make_changes: Callable[[], None]) -> str:
        """Runs the script; returns why its first `fit` has not ended the process."""
        reason = _NO_FIT

        def keras_imported() -> None:
            nonlocal reason
            import keras

            if keras.backend.backend() == "tensorflow":
                make_changes()
            else:
                reason = f"Keras runs on {keras.backend.backend()}; only TensorFlow can be tuned"

        ImportHook({"keras": keras_imported}).install()
        try:
            run_main(self.script, self.module, self.arguments)
        except CannotOpenError as error:
            return str(error)
        except SystemExit:
            pass
        return reason
