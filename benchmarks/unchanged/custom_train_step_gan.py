"""A generative adversarial network whose train_step trains two models with two optimizers."""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(7)

LATENT_DIM = 8

discriminator = keras.Sequential(
    [keras.Input((16,)), layers.Dense(32), layers.LeakyReLU(), layers.Dense(1)],
    name="discriminator",
)
generator = keras.Sequential(
    [keras.Input((LATENT_DIM,)), layers.Dense(32), layers.LeakyReLU(), layers.Dense(16)],
    name="generator",
)


class GAN(keras.Model):
    def __init__(self, discriminator, generator, latent_dim):
        super().__init__()
        self.discriminator = discriminator
        self.generator = generator
        self.latent_dim = latent_dim
        self.d_loss_tracker = keras.metrics.Mean(name="d_loss")
        self.g_loss_tracker = keras.metrics.Mean(name="g_loss")
        self.seed_generator = keras.random.SeedGenerator(1337)

    @property
    def metrics(self):
        return [self.d_loss_tracker, self.g_loss_tracker]

    def compile(self, d_optimizer, g_optimizer, loss_fn):
        super().compile()
        self.d_optimizer = d_optimizer
        self.g_optimizer = g_optimizer
        self.loss_fn = loss_fn

    def train_step(self, real):
        batch_size = tf.shape(real)[0]
        shape = (batch_size, self.latent_dim)
        generated = self.generator(keras.random.normal(shape, seed=self.seed_generator))
        combined = tf.concat([generated, real], axis=0)
        labels = tf.concat([tf.ones((batch_size, 1)), tf.zeros((batch_size, 1))], axis=0)
        with tf.GradientTape() as tape:
            d_loss = self.loss_fn(labels, self.discriminator(combined))
        grads = tape.gradient(d_loss, self.discriminator.trainable_weights)
        self.d_optimizer.apply(grads, self.discriminator.trainable_weights)

        noise = keras.random.normal(shape, seed=self.seed_generator)
        with tf.GradientTape() as tape:
            predictions = self.discriminator(self.generator(noise))
            g_loss = self.loss_fn(tf.zeros((batch_size, 1)), predictions)
        grads = tape.gradient(g_loss, self.generator.trainable_weights)
        self.g_optimizer.apply(grads, self.generator.trainable_weights)

        self.d_loss_tracker.update_state(d_loss)
        self.g_loss_tracker.update_state(g_loss)
        return {"d_loss": self.d_loss_tracker.result(), "g_loss": self.g_loss_tracker.result()}


class GANMonitor(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        noise = keras.random.normal((2, LATENT_DIM), seed=epoch)
        print(f"sample {epoch}:", self.model.generator(noise).numpy().sum(axis=1).tolist())


dataset = tf.random.normal((4096, 16), seed=1)
dataset = tf.data.Dataset.from_tensor_slices(dataset).shuffle(1024, seed=2).batch(64)

gan = GAN(discriminator, generator, LATENT_DIM)
gan.compile(
    d_optimizer=keras.optimizers.Adam(learning_rate=0.0003),
    g_optimizer=keras.optimizers.Adam(learning_rate=0.0003),
    loss_fn=keras.losses.BinaryCrossentropy(from_logits=True),
)
history = gan.fit(dataset, epochs=3, callbacks=[GANMonitor()], verbose=2)
print(history.history)
