# Source: GitHub, Hironsan/anago #87 "Best practise for long documents" (all sequences are padded to the longest one) and
#   domerin0/neural-sentiment #9 "padding all sequences to same length is inefficient".
# The user saw: a classifier of short messages (about 14 words) is as slow as one of long letters. A GRU of 24 units takes
#   300 ms for a batch of 64 messages; a smaller GRU changes little.
# True cause: pad_sequences without maxlen pads each message to the longest, and one of 4,000 has 300 words: the GRU
#   takes 300 steps for messages of 14 words: 95 % of all positions are padding.
# First line of a good tool: 95 % of what the network reads is padding: the batches are 300 long, the messages 14 on
#   average (99 % under 25): maxlen=25 in pad_sequences (line), or pad per batch (ragged/bucket_by_sequence_length).
# Must not say: input-bound; "nothing was found"; only a smaller model or larger batch; unroll=True; jit_compile.
#   (Naming the GRU as the costly layer is right but vague.)
# FIXED=1: maxlen=25. LOSSES differ a little (one message is cut). Kind: speed, text, padding.
import os, sys, time

import keras
import numpy as np

FIXED = os.environ.get("FIXED") == "1"
keras.utils.set_random_seed(1)
WORDS = 2_000

rng = np.random.default_rng(0)
lengths = rng.poisson(13, 4_000).clip(3, 25)
lengths[1_234] = 300  # somebody pasted a whole letter
messages = [rng.integers(1, WORDS, length) for length in lengths]
urgent = np.array([(message < 100).sum() > 0 for message in messages], "float32")[:, None]
x = keras.utils.pad_sequences(messages, maxlen=25 if FIXED else None, padding="post")

model = keras.Sequential([
    keras.Input((None,), dtype="int32"),
    keras.layers.Embedding(WORDS, 16, mask_zero=True),
    keras.layers.GRU(24),
    keras.layers.Dense(1, activation="sigmoid"),
])
model.compile("adam", "binary_crossentropy")
began = time.time()
history = model.fit(x, urgent, batch_size=64, epochs=3, verbose=2)
print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
print("LOSSES", history.history["loss"])
