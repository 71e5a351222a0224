"""Repairs of Keras' training under `tf.distribute`, applied only if Keras has the fault."""
