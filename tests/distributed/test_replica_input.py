"""What a dataset and a model show of what replicas train on."""

import keras
import pytest
import tensorflow as tf

from keras_gpukit.distributed.replica_input import replica_input

Dataset = tf.data.Dataset


def seen(dataset, **options):
    return replica_input(dataset, replicas=2, **options)


def test_the_last_batch_is_found_below_what_passes_batches_on():
    found = seen(Dataset.range(70).batch(32).map(lambda x: x).prefetch(2))
    assert (found.batch, found.last_batch, found.drops_remainder) == (32, 6, False)
    assert seen(Dataset.range(64).batch(32)).last_batch == 32
    assert seen(Dataset.range(70).batch(32, drop_remainder=True)).drops_remainder


@pytest.mark.parametrize(
    "dataset",
    [
        lambda: Dataset.range(70).repeat().batch(32),
        lambda: Dataset.range(70).filter(lambda x: x > 3).batch(32),
    ],
)
def test_an_unknown_number_of_examples_stays_unknown(dataset):
    found = seen(dataset())
    assert (found.batch, found.last_batch) == (32, None)


def test_unbatched_data_has_no_batch():
    assert seen(Dataset.range(70)).batch is None


@pytest.mark.parametrize(
    ("dataset", "files"),
    [
        (lambda: tf.data.TFRecordDataset(["a", "b", "c"]).batch(2), 3),
        (lambda: Dataset.from_tensor_slices(["a", "b"]).interleave(tf.data.TextLineDataset), 2),
        (
            lambda: (
                Dataset.from_tensor_slices(["a", "b"]).shuffle(9).flat_map(tf.data.TFRecordDataset)
            ),
            2,
        ),
        (lambda: Dataset.from_tensor_slices(["a", "b"]).map(tf.io.read_file), None),
        (lambda: Dataset.range(9), None),
    ],
)
def test_files_are_counted_where_readers_open_them(dataset, files):
    assert seen(dataset()).files == files


def test_the_policy_is_that_of_the_options():
    options = tf.data.Options()
    assert seen(Dataset.range(9)).policy == "AUTO"
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.FILE
    assert seen(Dataset.range(9).with_options(options)).policy == "FILE"


def test_batch_normalization_on_each_replica_is_counted_in_nested_models_too():
    layers = keras.layers
    inner = keras.Sequential([keras.Input((4,)), layers.BatchNormalization(), layers.Dense(4)])
    model = keras.Sequential(
        [
            keras.Input((4,)),
            inner,
            layers.BatchNormalization(),
            layers.BatchNormalization(synchronized=True),
        ]
    )
    assert seen(Dataset.range(9), model=model).batch_norms == 2
    assert seen(Dataset.range(9)).batch_norms is None


def test_other_inputs_are_refused():
    with pytest.raises(TypeError, match="Received: dataset=list"):
        seen([1, 2])
