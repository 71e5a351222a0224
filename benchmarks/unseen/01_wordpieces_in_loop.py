# Source: GitHub, lucidrains/reformer-pytorch #143 "self-supervised.py Training Script is it worthwhile pretokenizing ?"
#   and huggingface/sentence-transformers #334 "Can we preprocess the tokenization process to speed up?" (PyTorch there).
# The user saw: a training loop by hand on 2,048 reviews; train_step is a tf.function, yet an epoch takes many times
#   longer than the tiny model explains; one core is busy.
# True cause: the loop calls encode() (word pieces by greedy search, in Python) for the reviews of each batch, again in
#   every one of the 6 epochs, while TensorFlow waits. The ids are always the same.
# First line of a good tool: .. % of this loop passes in Python between the steps, in encode (line): the same texts are
#   tokenized in each epoch; encode once before the loop (saves about .. s).
# Must not say: train_step is slow/eager/retraced, a bigger model or batch, a tf.data map is to blame (there is none),
#   "no fit was found" as the last word, nothing found.
# FIXED=1: all reviews are encoded once before the loop (within FIT_S). Kind: speed, text, own training loop.
import os, random, re, sys, time

import keras
import numpy as np
import tensorflow as tf

FIXED = os.environ.get("FIXED") == "1"
keras.utils.set_random_seed(1)
LENGTH, BATCH, EPOCHS = 160, 64, 6

dice = random.Random(0)
syllables = [a + b for a in "bcdfghklmnprst" for b in "aeiou"]
lexicon = ["".join(dice.choices(syllables, k=dice.randint(2, 5))) for _ in range(20_000)]
reviews = [", ".join(" ".join(dice.choices(lexicon, k=25)) for _ in range(4)) + "." for _ in range(2_048)]
stars = np.array([float(review.count("ba") + review.count("ko") > 9) for review in reviews], "float32")

known = sorted(set(syllables + lexicon[:500] + list("abcdefghijklmnopqrstu.,")))
pieces = {piece: number + 2 for number, piece in enumerate(known)}


def encode(text):
    ids = []
    for word in re.findall(r"\w+|[^\w\s]", text.lower()):
        start = 0
        while start < len(word):
            end = len(word)
            while end > start and word[start:end] not in pieces:
                end -= 1
            ids.append(pieces.get(word[start:end], 1))
            start = max(end, start + 1)
    return (ids + [0] * LENGTH)[:LENGTH]


model = keras.Sequential([
    keras.Input((LENGTH,), dtype="int32"),
    keras.layers.Embedding(len(pieces) + 2, 24),
    keras.layers.Conv1D(24, 5, activation="relu"),
    keras.layers.GlobalMaxPooling1D(),
    keras.layers.Dense(1, activation="sigmoid"),
])
optimizer = keras.optimizers.Adam(1e-3)
optimizer.build(model.trainable_variables)
loss_of = keras.losses.BinaryCrossentropy()


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_of(y, model(x, training=True))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss


began = time.time()
if FIXED:
    encoded = np.array([encode(review) for review in reviews], "int32")
losses = []
for epoch in range(EPOCHS):
    order = np.random.permutation(len(reviews))
    total = 0.0
    for start in range(0, len(order), BATCH):
        chosen = order[start:start + BATCH]
        if FIXED:
            x = encoded[chosen]
        else:
            x = np.array([encode(reviews[number]) for number in chosen], "int32")
        total += float(train_step(tf.constant(x), tf.constant(stars[chosen, None])))
    losses.append(total / (len(order) // BATCH))
    print(f"epoch {epoch + 1}: loss {losses[-1]:.4f}")
print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
print("LOSSES", losses)
