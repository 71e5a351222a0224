"""The strategies that `configure_gpus` knows: one class for each, and what a process has made."""

from keras_gpukit.distribute.strategies.registry import ACCEPTED, NAMES, choose, make

__all__ = ["ACCEPTED", "NAMES", "choose", "make"]
