"""Fits whose batches are buffered on devices that hide tf.data's model; prints what they report."""

import json
import sys

import keras
import tensorflow as tf
from helpers.training import fast_dataset, mirrored_cpus, small_model

import keras_gpukit as gpukit
from keras_gpukit.frameworks import tf_datasets

# Logical CPUs stand in for GPUs.
tf_datasets.HIDE_MODELS = ("CPU:1",)
strategy = mirrored_cpus()
to_device = tf.data.experimental.prefetch_to_device("CPU:1")


def record_of(model, data, **options):
    callback = gpukit.InputStall(None)
    model.fit(data, verbose=0, callbacks=[callback], **options)
    summary = callback.summary
    return {
        "stall": summary.stall_fraction,
        "confidence": summary.confidence,
        "mechanism": summary.mechanism,
        "steps": summary.measured_steps,
        "because": summary.unknown_because,
        "start_s": summary.pipeline_start.mean_s if summary.pipeline_start else None,
    }


def weights_after(data, callbacks):
    keras.utils.set_random_seed(0)
    model = small_model()
    model.fit(data.shuffle(8, seed=1).apply(to_device), epochs=2, verbose=0, callbacks=callbacks)
    return [weight.tobytes() for weight in model.get_weights()]


def mirrored(make):
    with strategy.scope():
        return make()


# Each model is traced once.
model = small_model()
records = {"one": record_of(model, fast_dataset(40).apply(to_device), epochs=2)}
endless = fast_dataset(100).apply(to_device)
records["endless"] = record_of(small_model(), endless, epochs=3, steps_per_epoch=6)
records["several"] = record_of(
    small_model(steps_per_execution=4), fast_dataset(40).apply(to_device), epochs=2
)
replicated = mirrored(small_model)
records["mirrored"] = record_of(replicated, fast_dataset(20), epochs=2)
monitor = gpukit.Monitor(sys.argv[1], verbose=1)
replicated.fit(fast_dataset(20), verbose=0, callbacks=[monitor])
records["monitored"] = monitor.summary.input_stall_fraction
monitored = weights_after(fast_dataset(20), [gpukit.InputStall(None)])
records["bit identical"] = monitored == weights_after(fast_dataset(20), [])
print(json.dumps(records))
