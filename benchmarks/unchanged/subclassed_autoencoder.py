"""A variational autoencoder as subclassed layers and a subclassed model with its own losses."""

import keras
import numpy as np
from keras import layers, ops

keras.utils.set_random_seed(42)

ORIGINAL_DIM = 64
LATENT_DIM = 4


class Sampling(layers.Layer):
    """Uses (mean, log variance) to sample the encoding of an input."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.seed_generator = keras.random.SeedGenerator(1337)

    def call(self, inputs):
        mean, log_var = inputs
        epsilon = keras.random.normal(ops.shape(mean), seed=self.seed_generator)
        return mean + ops.exp(0.5 * log_var) * epsilon


class Encoder(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.projection = layers.Dense(32, activation="relu")
        self.mean = layers.Dense(LATENT_DIM)
        self.log_var = layers.Dense(LATENT_DIM)
        self.sampling = Sampling()

    def call(self, inputs):
        x = self.projection(inputs)
        mean, log_var = self.mean(x), self.log_var(x)
        return mean, log_var, self.sampling((mean, log_var))


class Decoder(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.projection = layers.Dense(32, activation="relu")
        self.output_layer = layers.Dense(ORIGINAL_DIM, activation="sigmoid")

    def call(self, inputs):
        return self.output_layer(self.projection(inputs))


class VariationalAutoEncoder(keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.encoder = Encoder()
        self.decoder = Decoder()

    def call(self, inputs):
        mean, log_var, z = self.encoder(inputs)
        self.add_loss(-0.5 * ops.mean(log_var - ops.square(mean) - ops.exp(log_var) + 1))
        return self.decoder(z)


rng = np.random.default_rng(0)
x_train = rng.uniform(size=(2048, ORIGINAL_DIM)).astype("float32")

vae = VariationalAutoEncoder()
vae.compile(optimizer=keras.optimizers.Adam(1e-3), loss=keras.losses.MeanSquaredError())
for stage, batch_size in enumerate((64, 128)):
    history = vae.fit(x_train, x_train, epochs=2, batch_size=batch_size, verbose=2)
    print(f"stage {stage}:", history.history)
print("reconstruction:", float(np.mean(vae.predict(x_train[:64], verbose=0))))
