"""Monitoring keeps no iterator longer than Keras does, but lets no epoch wait for the last one."""

import threading
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_gpukit import Monitor

EPOCHS = 4
OURS = "frees an iterator"


@pytest.fixture
def freed_on(monkeypatch):
    """Names of the threads on which iterators of datasets were freed."""
    names = []
    make = tf.data.Dataset.__iter__

    def counted(dataset):
        iterator = make(dataset)
        weakref.finalize(iterator, lambda: names.append(threading.current_thread().name))
        return iterator

    monkeypatch.setattr(tf.data.Dataset, "__iter__", counted)
    return names


def joined(names):
    for thread in threading.enumerate():
        if thread.name == OURS:
            thread.join()
    return list(names)


def test_monitoring_keeps_no_iterator_longer_than_keras_does(freed_on):
    monitored, plain = [], []

    def fit(counts, *callbacks):
        freed_on.clear()
        at_third_step = keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda batch, logs: (
                counts.append(joined(freed_on)) if batch == 2 else None
            )
        )
        rows = tf.data.Dataset.from_tensor_slices((np.ones((12, 3)), np.ones((12, 1)))).batch(4)
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        model.fit(rows, epochs=EPOCHS, verbose=0, callbacks=[at_third_step, *callbacks])

        counts.append(joined(freed_on))

    fit(monitored, Monitor(None, verbose=0))
    fit(plain)
    assert list(map(len, monitored)) == list(map(len, plain))
    assert len(plain) == EPOCHS + 1
    assert monitored[-1].count(OURS) == EPOCHS  # the others fetched nothing
