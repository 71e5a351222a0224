"""Neighbourhood sound classifier. Clips are 1 s wav files, six classes, some of them quite rare."""
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import pathlib
import wave

import keras
import numpy as np
import tensorflow as tf
from keras import layers

RATE = 8000
CLASSES = ["traffic", "birds", "dog", "siren", "hammer", "glass"]
COUNTS = [600, 240, 150, 120, 60, 40]
ROOT = pathlib.Path("clips")
keras.utils.set_random_seed(5)


def synth(c, rng):
    t = np.arange(RATE) / RATE
    f = 180 * (c + 1) * rng.uniform(0.8, 1.25)
    s = np.sin(2 * np.pi * f * t + c * np.sin(2 * np.pi * (2 + c) * t))
    s = s * 0.4 + rng.normal(scale=0.25, size=RATE)
    return (np.clip(s, -1, 1) * 32000).astype("<i2")


def record():
    rng = np.random.default_rng(5)
    for c, (name, n) in enumerate(zip(CLASSES, COUNTS)):
        (ROOT / name).mkdir(parents=True, exist_ok=True)
        for i in range(n):
            with wave.open(str(ROOT / name / f"{i:04d}.wav"), "wb") as w:
                w.setnchannels(1)
                w.setsampwidth(2)
                w.setframerate(RATE)
                w.writeframes(synth(c, rng).tobytes())


if not ROOT.exists():
    record()

files, labels = [], []
for c, name in enumerate(CLASSES):
    for p in sorted((ROOT / name).glob("*.wav")):
        files.append(str(p))
        labels.append(c)
files, labels = np.array(files), np.array(labels, "int32")
order = np.random.default_rng(0).permutation(len(files))
files, labels = files[order], labels[order]

mel = tf.signal.linear_to_mel_weight_matrix(40, 257, RATE, 60.0, 3800.0)


def load(path, label):
    audio, _ = tf.audio.decode_wav(tf.io.read_file(path), desired_channels=1, desired_samples=RATE)
    audio = audio[:, 0]
    # random shift so that the model does not learn the start of the clip
    audio = tf.roll(audio, tf.random.uniform((), 0, RATE, tf.int32), axis=0)
    spec = tf.abs(tf.signal.stft(audio, 400, 100, fft_length=512))
    return tf.math.log(tf.matmul(spec, mel) + 1e-4)[..., None], label


BATCH, STEPS = 32, 45

clips = tf.data.Dataset.from_tensor_slices((files, labels))
clips = clips.shuffle(len(files), reshuffle_each_iteration=True)
clips = clips.map(load, num_parallel_calls=tf.data.AUTOTUNE)

# same share of every class in a batch
streams = []
for c in range(len(CLASSES)):
    streams.append(clips.filter(lambda x, y, c=c: tf.equal(y, c)).repeat())
train = tf.data.Dataset.sample_from_datasets(streams, [1 / len(CLASSES)] * len(CLASSES))
train = train.batch(BATCH).prefetch(tf.data.AUTOTUNE)

model = keras.Sequential(
    [
        keras.Input((77, 40, 1)),
        layers.BatchNormalization(),
        layers.Conv2D(12, 3, strides=2, activation="relu"),
        layers.Conv2D(24, 3, strides=2, activation="relu"),
        layers.Conv2D(32, 3, activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(32, activation="relu"),
        layers.Dense(len(CLASSES), activation="softmax"),
    ]
)
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, steps_per_epoch=STEPS, epochs=4, verbose=2)
model.save("neighbourhood.keras")
