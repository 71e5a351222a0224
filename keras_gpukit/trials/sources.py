"""Makes the source of batches endless, so that an experiment sees no end of an epoch."""

from __future__ import annotations

from typing import Any

from keras_gpukit.arguments import check_whole
from keras_gpukit.trials.checks import check_arrays, wrong_kind

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
            raise ValueError(f"dataset must have at least one batch. Received: dataset={dataset!r}")
        return dataset.repeat()
    if isinstance(dataset, keras.utils.PyDataset):
        return _from_py_dataset(dataset)
    raise wrong_kind(dataset)


def without_lists(part: Any) -> Any:
    """Replaces lists by tuples in a structure, as TensorFlow converts lists; leaves None out."""
    if isinstance(part, dict):
        return {name: without_lists(each) for name, each in part.items() if each is not None}
    if isinstance(part, (list, tuple)):
        return tuple(without_lists(each) for each in part if each is not None)
    return part


def _from_py_dataset(dataset: Any) -> Any:
    import keras

    count = dataset.num_batches
    if count is None:
        return dataset
    if count == 0:
        raise ValueError(f"dataset must have at least one batch. Received: dataset={dataset!r}")

    class Endless(keras.utils.PyDataset):  # type: ignore[misc]
        num_batches = None

        def __getitem__(self, index: int) -> Any:
            return dataset[index % count]

    return Endless(
        workers=dataset.workers,
        use_multiprocessing=dataset.use_multiprocessing,
        max_queue_size=dataset.max_queue_size,
    )


def _from_arrays(arrays: tuple[Any, ...], batch_size: int) -> Any:
    """Makes batches of arrays as Keras does: shuffles and batches row numbers, gathers the rows."""
    import keras
    import tensorflow as tf

    check_whole("batch_size", batch_size)
    rows = check_arrays(tf.nest.flatten(arrays))

    def on_host(array: Any) -> Any:
        floating = keras.backend.is_float_dtype(keras.backend.standardize_dtype(array.dtype))
        return tf.convert_to_tensor(array, keras.config.floatx() if floating else None)

    with tf.device("CPU:0"):
        tensors = tf.nest.map_structure(on_host, arrays)
    numbers = tf.data.Dataset.range(rows).shuffle(rows).batch(batch_size)
    return numbers.map(
        lambda chosen: tf.nest.map_structure(lambda tensor: tf.gather(tensor, chosen), tensors),
        num_parallel_calls=tf.data.AUTOTUNE,
    ).repeat()
