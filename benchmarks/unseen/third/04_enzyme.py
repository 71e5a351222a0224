"""Multi-label function prediction for enzymes from k-mer counts."""
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import keras
from keras import layers
from sklearn.metrics import roc_auc_score

START = time.perf_counter()
SEED = 41
ENZYMES = 9000
KMERS = 400
TERMS = 900
BATCH = 64
EPOCHS = 20

keras.utils.set_random_seed(SEED)


def make_table():
    rng = np.random.default_rng(SEED)
    family = rng.integers(0, 60, ENZYMES)
    profile = rng.gamma(0.5, 1.0, (60, KMERS))
    counts = rng.poisson(profile[family]).astype("float32")
    terms_of_family = rng.random((60, TERMS)) < 0.05
    noise = rng.random((ENZYMES, TERMS)) < 0.004
    labels = (terms_of_family[family] ^ noise).astype("float32")
    return np.log1p(counts), labels


def build_model():
    model = keras.Sequential(
        [
            keras.Input((KMERS,)),
            layers.Dense(256, activation="relu"),
            layers.Dropout(0.3),
            layers.Dense(128, activation="relu"),
            layers.Dense(TERMS, activation="sigmoid"),
        ]
    )
    metrics = [keras.metrics.BinaryAccuracy(name="acc")]
    if os.environ.get("FIXED") != "1":
        metrics += [
            keras.metrics.AUC(curve="ROC", multi_label=True, num_labels=TERMS, name="roc"),
            keras.metrics.AUC(curve="PR", multi_label=True, num_labels=TERMS, name="pr"),
        ]
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss=keras.losses.BinaryCrossentropy(),
        metrics=metrics,
    )
    return model


def macro_auc(truth, score):
    usable = (truth.sum(axis=0) > 0) & (truth.sum(axis=0) < len(truth))
    return roc_auc_score(truth[:, usable], score[:, usable], average="macro")


counts, labels = make_table()
order = np.random.permutation(ENZYMES)
cut = int(0.85 * ENZYMES)
train, test = order[:cut], order[cut:]

model = build_model()
model.fit(
    counts[train],
    labels[train],
    validation_data=(counts[test], labels[test]),
    batch_size=BATCH,
    epochs=EPOCHS,
    callbacks=[keras.callbacks.EarlyStopping("val_loss", patience=5)],
    verbose=2,
)

score = model.predict(counts[test], batch_size=512, verbose=0)
print("test macro AUC", round(macro_auc(labels[test], score), 4))
frequent = np.argsort(-labels[train].sum(axis=0))[:5]
for term in frequent:
    print(f"term {term:4d}: mean score {score[:, term].mean():.3f}")

print(f"{time.perf_counter() - START:.1f} s after imports", file=sys.stderr)
