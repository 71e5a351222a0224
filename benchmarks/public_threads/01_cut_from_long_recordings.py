# Source: GitHub, tensorflow/tensorflow #52037 "tf.audio.decode_wav mmap like scipy.io.wavfile.read" (reading only a
#   portion of a WAV file would be much faster; TensorFlow's operation cannot).
# The user saw: a keyword spotter trains on one-second clips, taken at known positions out of long field recordings.
#   The GPU idles, and a step takes as long for clips of a tenth of a second as for clips of a second.
# True cause: for each clip, load() reads and decodes the whole recording (48 s, 1.5 MB), then throws 98 % away. Each
#   recording is decoded 30 times per epoch.
# First line of a good tool: input-bound by load (line), in decode_wav: it decodes 768,000 samples per example, of which
#   16,000 are used: cut the recordings once (before fit), or read only the part.
# Must not say: num_parallel_calls or prefetch (both are there), the model, the shuffle buffer; "cache()" is right (the
#   clips fit in memory: 23 MB), but vague if it does not say that it is decoding.
# FIXED=1: the recordings were cut into one-second files beforehand. Kind: speed, audio input.
import os, pathlib, sys, tempfile, time

import keras
import numpy as np
import tensorflow as tf

FIXED = os.environ.get("FIXED") == "1"
keras.utils.set_random_seed(1)
RATE, SECONDS, RECORDINGS = 16_000, 48, 12

folder = pathlib.Path(tempfile.mkdtemp())
rng = np.random.default_rng(0)
clips = []
for number in range(RECORDINGS):
    tones = rng.integers(0, 3, SECONDS)
    steps = np.repeat(np.array([300, 700, 1500])[tones], RATE) * 2 * np.pi / RATE
    wave = (0.4 * np.sin(np.cumsum(steps)) + 0.3 * rng.normal(size=RATE * SECONDS)).clip(-1, 1)
    wave = wave.astype("float32")[:, None]
    if FIXED:
        for second in range(SECONDS):
            piece = tf.audio.encode_wav(wave[second * RATE : (second + 1) * RATE], RATE)
            tf.io.write_file(str(folder / f"{number}-{second}.wav"), piece)
    else:
        tf.io.write_file(str(folder / f"{number}.wav"), tf.audio.encode_wav(wave, RATE))
    clips += [(number, second, tones[second]) for second in rng.permutation(SECONDS)[:30]]
clips = np.array(clips)


def load(recording, second, label):
    name = tf.strings.join([str(folder), "/", tf.strings.as_string(recording)])
    if FIXED:
        name += "-" + tf.strings.as_string(second)
    wave, _ = tf.audio.decode_wav(tf.io.read_file(name + ".wav"))
    return wave if FIXED else wave[second * RATE : (second + 1) * RATE], label


ds = tf.data.Dataset.from_tensor_slices(tuple(clips.T)).shuffle(len(clips), seed=2)
ds = ds.map(load, num_parallel_calls=tf.data.AUTOTUNE)
ds = ds.map(lambda wave, label: (tf.ensure_shape(wave, (RATE, 1)), label)).batch(32).prefetch(tf.data.AUTOTUNE)

model = keras.Sequential([
    keras.Input((RATE, 1)),
    keras.layers.Conv1D(8, 64, strides=16, activation="relu"),
    keras.layers.Conv1D(16, 16, strides=8, activation="relu"),
    keras.layers.GlobalMaxPooling1D(),
    keras.layers.Dense(3, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
began = time.time()
history = model.fit(ds, epochs=6, verbose=2)
print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
print("LOSSES", history.history["loss"])
