"""Predicts the memory of a script's first `fit`, in place of training."""

from __future__ import annotations

from typing import Any

from keras_gpukit.running import keras_private
from keras_gpukit.running.import_hook import ImportHook


class FirstFit:
    """Ends the script at its first `fit`, with the prediction of what that needs.

    Args:
        batch_size: Predict with this one; None for the script's own.

    Attributes:
        has_asked: Whether a `fit` was reached.
        failed_because: Why nothing was predicted, once the script is over; None if it was.
    """

    def __init__(self, batch_size: int | None = None) -> None:
        self.has_asked = False
        self.failed_because: str | None = "the script called no fit()"
        self._batch_size = batch_size

    def install(self) -> None:
        """Begins to look at imports."""
        ImportHook({"keras": self._watch_fits}).install()

    def _watch_fits(self) -> None:
        import keras

        if keras.backend.backend() == "tensorflow":
            keras_private.on_each_fit(self._ask)
        else:
            name = keras.backend.backend()
            self.failed_because = f"Keras runs on {name}; only TensorFlow's memory is predicted"

    def _ask(self, callback_list: Any, given: int) -> None:
        """Called within `fit`, when Keras has built the model and its optimizer."""
        from keras_gpukit.experiments.predict_memory import predict_of_spec
        from keras_gpukit.reports.memory import print_prediction
        from keras_gpukit.watching.call_frame import batch_of_fit, first_batch_of_fit

        self.has_asked = True
        try:
            spec, batch_size = batch_of_fit()
            batch_size = self._batch_size or batch_size or first_batch_of_fit()
            if spec is None or batch_size is None:
                raise ValueError("the size of its batches is not known; give --batch-size")
            print_prediction(predict_of_spec(callback_list.model, spec, batch_size))
            self.failed_because = None
        except Exception as error:
            self.failed_because = f"{type(error).__name__}: {error}"
        raise SystemExit(0 if self.failed_because is None else 2)
