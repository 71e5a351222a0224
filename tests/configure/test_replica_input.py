"""What a dataset and a model show of what replicas train on."""

import keras
import pytest
import tensorflow as tf

from keras_gpukit.configure.setup import replica_input

Dataset = tf.data.Dataset


def seen(dataset, **options):
    return replica_input(dataset, replicas=2, **options)


def test_the_last_batch_is_found_below_what_passes_batches_on():
    found = seen(Dataset.range(70).batch(32).map(lambda x: x).prefetch(2))
    assert (found.batch, found.last_batch, found.drops_remainder) == (32, 6, False)
    assert seen(Dataset.range(64).batch(32)).last_batch == 32
    assert seen(Dataset.range(70).batch(32, drop_remainder=True)).drops_remainder
    # Unknown numbers stay unknown, and unbatched data have no batch.
    numbers = Dataset.range(70)
    for of_unknown in (numbers.repeat(), numbers.filter(lambda x: x > 3)):
        found = seen(of_unknown.batch(32))
        assert (found.batch, found.last_batch) == (32, None)
    assert seen(numbers).batch is None


def test_files_are_counted_where_readers_open_them_and_the_policy_is_that_of_the_options():
    names = Dataset.from_tensor_slices(["a", "b"])
    assert seen(tf.data.TFRecordDataset(["a", "b", "c"]).batch(2)).files == 3
    assert seen(names.interleave(tf.data.TextLineDataset)).files == 2
    assert seen(names.shuffle(9).flat_map(tf.data.TFRecordDataset)).files == 2
    assert seen(names.map(tf.io.read_file)).files is None
    assert seen(Dataset.range(9)).files is None
    options = tf.data.Options()
    assert seen(Dataset.range(9)).policy == "AUTO"
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.FILE
    assert seen(Dataset.range(9).with_options(options)).policy == "FILE"


def test_batch_normalization_on_each_replica_is_counted_in_nested_models_too():
    norm = keras.layers.BatchNormalization
    inner = keras.Sequential([keras.Input((4,)), norm(), keras.layers.Dense(4)])
    model = keras.Sequential([keras.Input((4,)), inner, norm(), norm(synchronized=True)])
    assert seen(Dataset.range(9), model=model).batch_norms == 2
    assert seen(Dataset.range(9)).batch_norms is None
    with pytest.raises(TypeError, match="Received: dataset=list"):
        seen([1, 2])
