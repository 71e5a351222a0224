"""Small residual network on 24x24 glyphs, with a hand-made learning-rate plan."""
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(21)
rng = np.random.default_rng(21)

EPOCHS = 8
BASE_LR = 0.05


def make_glyphs(n):
    labels = rng.integers(0, 8, n)
    prototypes = np.random.default_rng(0).random((8, 6, 6)) > 0.5
    imgs = np.kron(prototypes[labels], np.ones((1, 4, 4))).astype("float32")
    imgs += rng.normal(scale=0.8, size=imgs.shape).astype("float32")
    return imgs[..., None], labels


def block(x, filters, stride=1):
    shortcut = x
    y = layers.Conv2D(filters, 3, strides=stride, padding="same", use_bias=False)(x)
    y = layers.BatchNormalization()(y)
    y = layers.ReLU()(y)
    y = layers.Conv2D(filters, 3, padding="same", use_bias=False)(y)
    y = layers.BatchNormalization()(y)
    if stride != 1 or x.shape[-1] != filters:
        shortcut = layers.Conv2D(filters, 1, strides=stride, use_bias=False)(x)
        shortcut = layers.BatchNormalization()(shortcut)
    return layers.ReLU()(layers.Add()([y, shortcut]))


def build():
    inp = keras.Input((24, 24, 1))
    x = layers.Conv2D(8, 3, padding="same", use_bias=False)(inp)
    x = layers.BatchNormalization()(x)
    x = layers.ReLU()(x)
    for filters, stride in [(8, 1), (8, 1), (16, 2), (16, 1), (32, 2), (32, 1)]:
        x = block(x, filters, stride)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inp, layers.Dense(8, activation="softmax")(x))


def lr_at(epoch):
    # warm up for 3 epochs, then cosine to zero
    if epoch < 3:
        return BASE_LR * (epoch + 1) / 3
    return 0.5 * BASE_LR * (1 + np.cos(np.pi * (epoch - 3) / (EPOCHS - 3)))


x_train, y_train = make_glyphs(1024)
x_val, y_val = make_glyphs(256)
model = build()

val_accuracy = []
for epoch in range(EPOCHS):
    lr = float(lr_at(epoch))
    model.compile(
        optimizer=keras.optimizers.SGD(learning_rate=lr),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    h = model.fit(
        x_train,
        y_train,
        batch_size=64,
        epochs=1,
        validation_data=(x_val, y_val),
        verbose=0,
    )
    val_accuracy.append(h.history["val_accuracy"][0])
    print(f"epoch {epoch + 1:2d}  lr {lr:.4f}  loss {h.history['loss'][0]:.4f}  val acc {val_accuracy[-1]:.3f}")

print("best:", max(val_accuracy))
