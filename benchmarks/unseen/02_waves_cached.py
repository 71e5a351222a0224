# Source: GitHub, mozilla/TTS #214 "Preprocessing on the fly" and awni/speech #7 (spectrograms computed anew in each
#   epoch); TensorFlow's guide "Better performance with the tf.data API" (cache after the costly map).
# The user saw: commands of one second from wav files. There is a cache(), parallel maps and prefetch, as the guide says,
#   but all epochs take the same time and both cores are full.
# True cause: cache() stands before map(log_mel): it keeps the waves, which are cheap to read, and the 512 spectrograms
#   are computed again in each of the 20 epochs, though nothing in them is random.
# First line of a good tool: input-bound by log_mel (line), which runs after cache(): move the cache behind it (about 5 MB
#   in all); from the second epoch on the wait is gone.
# Must not say: add parallel calls or prefetch (they are there); "add a cache" as if there were none, without saying
#   where; reading or decoding the files is slow; the model; nothing, because a cache is there.
# FIXED=1: cache() behind map(log_mel). Kind: speed, audio, order of the dataset (slow map).
import os, pathlib, sys, tempfile, time

import keras
import numpy as np
import tensorflow as tf

FIXED = os.environ.get("FIXED") == "1"
keras.utils.set_random_seed(1)
RATE = 16_000

folder = pathlib.Path(tempfile.mkdtemp())
rng = np.random.default_rng(0)
moments = np.arange(RATE) / RATE
names, words = [], []
for number in range(512):
    word = number % 6
    wave = np.sin(2 * np.pi * (200 + 90 * word) * moments * (1 + 0.1 * moments)) * 0.3 + rng.normal(0, 0.2, RATE)
    path = folder / f"{word}_{number:04}.wav"
    path.write_bytes(tf.audio.encode_wav(wave[:, None].astype("float32").clip(-1, 1), RATE).numpy())
    names.append(str(path))
    words.append(word)

MEL = tf.signal.linear_to_mel_weight_matrix(40, 513, RATE, 60.0, 7_600.0)


def read(name, word):
    wave, _ = tf.audio.decode_wav(tf.io.read_file(name), desired_channels=1, desired_samples=RATE)
    return wave[:, 0], word


def log_mel(wave, word):
    power = tf.abs(tf.signal.stft(wave, frame_length=1024, frame_step=80, pad_end=True)) ** 2
    picture = tf.math.log(tf.matmul(power, MEL) + 1e-6)
    return tf.image.resize(picture[..., None], (64, 40)), word


ds = tf.data.Dataset.from_tensor_slices((names, words)).map(read, num_parallel_calls=tf.data.AUTOTUNE)
if FIXED:
    ds = ds.map(log_mel, num_parallel_calls=tf.data.AUTOTUNE).cache()
else:
    ds = ds.cache().map(log_mel, num_parallel_calls=tf.data.AUTOTUNE)
ds = ds.shuffle(512, seed=3).batch(32).prefetch(tf.data.AUTOTUNE)

model = keras.Sequential([
    keras.Input((64, 40, 1)),
    keras.layers.Conv2D(8, 3, strides=2, activation="relu"),
    keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
    keras.layers.GlobalAveragePooling2D(),
    keras.layers.Dense(6, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
began = time.time()
history = model.fit(ds, epochs=20, verbose=2)
print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
print("LOSSES", history.history["loss"])
