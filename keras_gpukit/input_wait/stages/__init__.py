"""Which stage of a tf.data pipeline training waits for."""
