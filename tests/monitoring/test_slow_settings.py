"""The settings that can slow a run are read where it runs, and none in a run that has none."""

import re
import sys
import tracemalloc
from functools import partial

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.training import compiled, small_model
from keras import layers
from tensorflow.python.data.ops import debug_mode

from keras_gpukit.monitoring.environment import read_environment
from keras_gpukit.records import RUN_FUNCTIONS_EAGERLY
from keras_gpukit.rules.known_faults import ON_EPOCH_BEGIN
from keras_gpukit.rules.setup import slowing_settings


def read(model=None):
    return read_environment(model or small_model()).settings


SET = {
    RUN_FUNCTIONS_EAGERLY: [partial(tf.config.run_functions_eagerly, on) for on in (True, False)],
    slowing_settings.DEBUG_MODE: (
        tf.data.experimental.enable_debug_mode,
        partial(debug_mode.toggle_debug_mode, False),
    ),
    slowing_settings.CHECK_NUMERICS: (
        tf.debugging.enable_check_numerics,
        tf.debugging.disable_check_numerics,
    ),
    slowing_settings.ACTIVE_PROFILER: (
        partial(tf.profiler.experimental.start, ""),
        partial(tf.profiler.experimental.stop, save=False),
    ),
    slowing_settings.TRACEMALLOC: (tracemalloc.start, tracemalloc.stop),
    slowing_settings.PROFILE: (
        partial(sys.setprofile, lambda *_: None),
        partial(sys.setprofile, None),
    ),
}


@pytest.mark.parametrize("key", SET)
def test_a_setting_is_read_while_it_is_in_effect(key):
    begin, end = SET[key]
    assert key not in read()
    begin()
    try:
        assert key in read()
    finally:
        end()
    assert key not in read()


def test_variables_how_the_model_was_compiled_and_its_preprocessing_layers_are_read(monkeypatch):
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    assert read()["CUDA_LAUNCH_BLOCKING"] == "CUDA_LAUNCH_BLOCKING=1"
    assert read_environment(small_model(run_eagerly=True)).runs_eagerly
    augment = keras.Sequential([layers.RandomFlip(name="flips"), layers.RandomZoom(0.1)])
    inputs = keras.Input((8, 8, 3))
    outputs = layers.Dense(1)(layers.Flatten()(augment(layers.Rescaling(0.1)(inputs))))
    model = keras.Model(inputs, outputs)
    assert read_environment(model).preprocessing == ("flips", augment.layers[1].name)
    assert read_environment(small_model()).preprocessing == ()


class Reads(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.settings = read(self.model)


@pytest.mark.parametrize(
    "arguments", [{}, {"histogram_freq": 2, "profile_batch": (5, 50)}, {"update_freq": 10}]
)
def test_the_arguments_of_tensorboard_that_take_time_are_read(tmp_path, arguments):
    reads = Reads()
    board = keras.callbacks.TensorBoard(tmp_path, **arguments)
    small_model().fit(np.zeros((1, 8)), np.zeros(1), callbacks=[board, reads], verbose=0)
    read = {key: each for key, each in reads.settings.items() if key.startswith("TensorBoard")}
    assert read == {f"TensorBoard.{key}": f"{key}={value}" for key, value in arguments.items()}


def test_copies_of_a_layer_over_time_and_saving_by_batches_are_read(tmp_path):
    copied = layers.TimeDistributed(layers.Dense(1))
    model = compiled(copied, layers.Flatten(), layers.Dense(1), shape=(60, 4))
    saves, reads = keras.callbacks.ModelCheckpoint(tmp_path / "m.keras", save_freq=3), Reads()
    model.fit(np.zeros((1, 60, 4)), np.zeros(1), callbacks=[saves, reads], verbose=0)
    assert "puts 60 copies of its layer" in reads.settings["TimeDistributed"]
    assert reads.settings["ModelCheckpoint.save_freq"] == "save_freq=3"


class FromArchive(keras.utils.PyDataset):
    """Batches of an archive, which is read once or for each batch; one of them sets its order."""

    def __init__(self, path, **options):
        super().__init__(**options)
        self.once = np.load(path)["x"]
        self.archive = np.load(path)
        self.order = range(2)

    def __len__(self):
        return 2


class Again(FromArchive):
    def on_epoch_begin(self):
        self.order = range(2)

    def __getitem__(self, index):
        x = self.archive["x"][self.order[index]][None]
        return x, x[:, :1]


class Once(FromArchive):
    def __getitem__(self, index):
        return self.once[index][None], self.once[index][None, :1]


class FromHDF5(keras.utils.PyDataset):
    """Batches of a file in chunks of four examples."""

    def __init__(self, path, **stored):
        super().__init__()
        with h5py.File(path, "w") as file:
            file.create_dataset("x", data=np.zeros((8, 8), "float32"), **stored)
        self.file = h5py.File(path)

    def __len__(self):
        return 2

    def __getitem__(self, index):
        x = np.stack([self.file["x"][row] for row in (index,)])
        return x, x[:, :1]


def test_a_compressed_chunk_of_many_examples_is_read_with_its_line(tmp_path):
    def settings_of(**stored):
        reads, data = Reads(), FromHDF5(tmp_path / "x.h5", **stored)
        small_model().fit(data, callbacks=[reads], verbose=0)
        data.file.close()
        return reads.settings

    line = FromHDF5.__getitem__.__code__.co_firstlineno + 1
    said = settings_of(chunks=(4, 8), compression="gzip")[slowing_settings.HDF5]
    assert re.fullmatch(
        rf"self\.file \(\S*test_slow_settings\.py:{line}\) keeps 4 examples in each compressed "
        "chunk, and",
        said,
    )
    assert slowing_settings.HDF5 not in settings_of(chunks=(1, 8), compression="gzip")
    assert slowing_settings.HDF5 not in settings_of(chunks=(4, 8))
    assert slowing_settings.HDF5 not in settings_of()


def test_what_a_pydataset_reads_for_each_batch_is_read_with_its_line(tmp_path):
    np.savez(tmp_path / "x.npz", x=np.zeros((2, 8), "float32"))

    def settings_of(dataset):
        reads = Reads()
        small_model().fit(dataset(tmp_path / "x.npz", workers=2), callbacks=[reads], verbose=0)
        return reads.settings

    again, once = settings_of(Again), settings_of(Once)
    line = Again.__getitem__.__code__.co_firstlineno + 1
    assert re.fullmatch(
        rf"self\.archive \(\S*test_slow_settings\.py:{line}\)", again[slowing_settings.NPZ]
    )
    assert re.search(rf"test_slow_settings\.py:{line} reads; workers=2", again[ON_EPOCH_BEGIN])
    assert not {slowing_settings.NPZ, ON_EPOCH_BEGIN} & once.keys()
