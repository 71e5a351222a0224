"""Repairs of Keras' training under `tf.distribute`, made only where the fault is there."""
