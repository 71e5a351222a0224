"""Monitored training does not wait for TensorFlow to free an epoch's iterator."""

import threading
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_gpukit import Monitor

EPOCHS = 4


def thread_name():
    """Of the current thread; those of a pool have their numbers after it."""
    return threading.current_thread().name.split("_")[0]


@pytest.fixture
def freed_on(monkeypatch):
    """Names of the threads on which iterators were freed; `fit`'s data must come from `rows`."""
    names = []
    make = tf.data.Dataset.__iter__

    def counted(dataset):
        iterator = make(dataset)
        weakref.finalize(
            iterator, lambda: names.append(threading.current_thread().name.rsplit("_")[0])
        )
        return iterator

    monkeypatch.setattr(tf.data.Dataset, "__iter__", counted)
    return names


def rows():
    return tf.data.Dataset.from_tensor_slices((np.ones((12, 3)), np.ones((12, 1)))).batch(4)


def fit(dataset, *callbacks, **options):
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    history = model.fit(dataset, epochs=EPOCHS, verbose=0, callbacks=list(callbacks), **options)
    for thread in threading.enumerate():
        if thread.name.startswith("gpukit-free-iterators"):
            thread.join()
    return history


def test_iterators_of_finished_epochs_are_freed_on_a_thread(tmp_path, freed_on):
    fit(rows(), Monitor(tmp_path))
    assert freed_on.count("gpukit-free-iterators") == EPOCHS


def test_a_pipeline_that_writes_a_cache_keeps_its_order(tmp_path, freed_on):
    # The next iterator fails while the one before still holds the file's lock.
    fit(rows().cache(str(tmp_path / "cache")), Monitor(tmp_path))
    assert "gpukit-free-iterators" not in freed_on


def test_an_iterator_that_goes_on_into_the_next_epoch_is_left_to_keras(tmp_path, freed_on):
    history = fit(rows().repeat(), Monitor(tmp_path), steps_per_epoch=2)
    assert len(history.history["loss"]) == EPOCHS
    assert "gpukit-free-iterators" not in freed_on


def test_watching_holds_no_iterator_longer_than_keras_does(tmp_path, freed_on):
    monitored, plain = [], []

    def count_in(counts):
        # At the third step of each epoch.
        return keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda batch, logs: (
                counts.append(len(freed_on)) if batch == 2 else None
            )
        )

    fit(rows().cache(str(tmp_path / "a")), count_in(monitored), Monitor(tmp_path))
    freed_on.clear()
    fit(rows().cache(str(tmp_path / "b")), count_in(plain))
    assert monitored == plain
    assert len(plain) == EPOCHS
