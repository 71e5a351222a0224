"""Experiments: short training runs that measure something and then restore the model."""
