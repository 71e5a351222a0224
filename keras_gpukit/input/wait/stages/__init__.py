"""Finds the stage of a tf.data pipeline that training waits for."""
