"""Checks of the model and the data of an experiment, endless data, and a line of progress."""

from __future__ import annotations

import reprlib
import socket
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

from keras_gpukit.arguments import check_compiled, check_number, check_whole, refuse

_ANSWERS_WITHIN_S = 5.0


def check_experiment(name: str, **duration: Any) -> None:
    """Checks that Keras runs on TensorFlow, and that a duration is a number above 0."""
    import keras

    if keras.backend.backend() != "tensorflow":
        raise ValueError(
            f"{name} needs Keras with TensorFlow as its backend. "
            f"Received: backend={keras.backend.backend()!r}"
        )
    for argument, value in duration.items():
        check_number(argument, value, "a number above 0", lambda v: v > 0)


def check_model(model: Any) -> None:
    """Checks that an argument is a compiled Keras model that can be trained."""
    import keras

    check_compiled(model)
    own_step = type(model).train_step is not keras.Model.train_step
    if model.optimizer is None and not own_step:
        raise ValueError(
            "`model` must have an optimizer, unless it has a train_step() of its own: call "
            f"model.compile(optimizer, loss). Received: a model named {model.name!r} without one"
        )


def check_one_device(model: Any, purpose: str) -> None:
    """Checks that a model trains on one replica only."""
    replicas = model.distribute_strategy.num_replicas_in_sync
    if replicas > 1:
        raise ValueError(
            f"`model` must train on one device; build it outside the strategy to {purpose}. "
            f"Received: a model on {replicas} replicas"
        )


_ACCEPTED = (
    "`dataset` must be a tf.data.Dataset of batches, a keras.utils.PyDataset, or a tuple of arrays "
    "(x, y)."
)


def no_batch(dataset: Any) -> ValueError:
    """Returns the error for a dataset that is empty."""
    return ValueError(f"`dataset` must have at least one batch. Received: dataset={dataset!r}")


def wrong_kind(dataset: Any, accepted: str = _ACCEPTED) -> TypeError:
    """Returns the error for an argument that is not a dataset."""
    hint = ""
    if hasattr(dataset, "__next__"):
        hint = (
            " A generator can be iterated only once, and the experiment would use it up: wrap the"
            " function that makes it, tf.data.Dataset.from_generator(function, ...)."
        )
    # The full repr of an array would fill the screen.
    return TypeError(f"{accepted}{hint} Received: dataset={reprlib.repr(dataset)}")


def check_arrays(arrays: list[Any], name: str = "dataset") -> int:
    """Checks that arrays are dense and equally long; returns their number of rows."""
    for array in arrays:
        if not (hasattr(array, "dtype") and hasattr(array, "shape")):
            raise TypeError(
                f"`{name}` must be a tuple of NumPy arrays or tensors, (x, y) or (x, y, "
                "sample_weight): convert lists and data frames, and leave out None. "
                f"Received: {type(array).__name__} in it"
            )
        if not hasattr(array, "__array__"):
            raise TypeError(
                f"`{name}` must be a tuple of dense arrays: convert ragged and sparse ones. "
                f"Received: {type(array).__name__} in it"
            )
        if not len(array.shape):
            raise ValueError(
                f"`{name}` must be a tuple of arrays with a row for each example. "
                f"Received: an array of shape {tuple(array.shape)} in it"
            )
    lengths = {int(array.shape[0]) for array in arrays}
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError(
            f"`{name}` must be a tuple of arrays with the same number of rows, and at least one. "
            f"Received: {name} with {sorted(lengths)} rows"
        )
    return lengths.pop()


def check_service(service: object) -> None:
    """Checks the address of a tf.data service, and that something listens there."""
    accepted = 'the address of a tf.data service, such as "grpc://host:5050"'
    if not isinstance(service, str):
        refuse("service", accepted, service, TypeError)
    try:
        parts = urlsplit(service)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not service.startswith("grpc://") or not host or not port:
        refuse("service", accepted, service, ValueError)
    try:
        # TensorFlow itself would retry for an hour.
        socket.create_connection((host, port), timeout=_ANSWERS_WITHIN_S).close()
    except OSError as error:
        raise ValueError(
            f"Nothing answers at the address of the tf.data service ({error}). Start one with "
            f"keras-gpukit input-service. Received: service={service!r}"
        ) from error


DEFAULT_BATCH_SIZE = 32  # Keras' own


def endless(dataset: Any, batch_size: int | None = None) -> Any:
    """Returns an endless dataset for `fit` that repeats the batches of a dataset.

    The dataset itself is not changed. Its epochs follow one another within the pipeline. The
    batches of a `PyDataset` keep the order of the dataset, although Keras would shuffle them.
    """
    import keras
    import tensorflow as tf

    if isinstance(dataset, tuple):
        return _from_arrays(dataset, DEFAULT_BATCH_SIZE if batch_size is None else batch_size)
    if batch_size is not None:
        raise ValueError(
            "`batch_size` is for arrays; a dataset comes in batches already. "
            f"Received: batch_size={batch_size!r}"
        )
    if isinstance(dataset, tf.data.Dataset):
        if int(dataset.cardinality()) == 0:
            raise no_batch(dataset)
        return dataset.repeat()
    if isinstance(dataset, keras.utils.PyDataset):
        return _from_py_dataset(dataset)
    raise wrong_kind(dataset)


def without_lists(part: Any) -> Any:
    """Replaces lists by tuples in a structure, as TensorFlow converts lists; leaves None out."""
    if isinstance(part, dict):
        return {name: without_lists(value) for name, value in part.items() if value is not None}
    if isinstance(part, (list, tuple)):
        return tuple(without_lists(item) for item in part if item is not None)
    return part


def _from_py_dataset(dataset: Any) -> Any:
    import keras

    count = dataset.num_batches
    if count is None:
        return dataset
    if count == 0:
        raise no_batch(dataset)

    class Endless(keras.utils.PyDataset):  # type: ignore[misc]
        num_batches = None

        def __getitem__(self, index: int) -> Any:
            return dataset[index % count]

    return Endless(
        workers=dataset.workers,
        use_multiprocessing=dataset.use_multiprocessing,
        max_queue_size=dataset.max_queue_size,
    )


def fed_as(array: Any) -> str:
    """Returns the type in which Keras feeds an array's numbers: `floatx` for all floating ones.

    Batches of a `tf.data.Dataset` and of a `PyDataset` keep their types.
    """
    import keras

    dtype = keras.backend.standardize_dtype(array.dtype)
    return str(keras.config.floatx() if keras.backend.is_float_dtype(dtype) else dtype)


def _from_arrays(arrays: tuple[Any, ...], batch_size: int) -> Any:
    """Makes batches of arrays as Keras does: shuffles and batches row numbers, gathers the rows."""
    import tensorflow as tf

    check_whole("batch_size", batch_size)
    rows = check_arrays(tf.nest.flatten(arrays))
    with tf.device("CPU:0"):
        tensors = tf.nest.map_structure(lambda array: tf.cast(array, fed_as(array)), arrays)
    numbers = tf.data.Dataset.range(rows).shuffle(rows).batch(batch_size)
    return numbers.map(
        lambda chosen: tf.nest.map_structure(lambda tensor: tf.gather(tensor, chosen), tensors),
        num_parallel_calls=tf.data.AUTOTUNE,
    ).repeat()


ShowProgress = Callable[[str, float], None]
"""Shows what an experiment does now, and how much of the total is done."""


class ProgressLine(Progress):
    """A line with what an experiment does now, in a terminal or notebook, while it is entered.

    The total is that of seconds, if calls do not say how much of it is done.
    """

    def __init__(self, name: str, total: float, *, shown: bool) -> None:
        self._began_s = time.perf_counter()
        console = Console()
        # Into a file, rich would write an empty line.
        shown = shown and (console.is_interactive or console.is_jupyter)
        # Refresh between measurements only: a refresh thread would disturb them.
        super().__init__(console=console, auto_refresh=False, transient=True, disable=not shown)
        self._line = self.add_task(name, total=total)

    def __call__(self, what: str, done: float | None = None) -> None:
        """Shows the current activity."""
        done = time.perf_counter() - self._began_s if done is None else done
        self.update(self._line, description=escape(what), completed=done, refresh=True)

    def ask(self, question: str) -> bool:
        """Asks the user a question whose answer is yes or no, in place of the line."""
        self.stop()
        answer = self.console.input(f"{escape(question)} (y/n) ")
        self.start()
        return answer.strip().lower() in {"y", "yes"}
