"""Runs an unchanged training script as Python would, with a `Monitor` in every `fit`."""
