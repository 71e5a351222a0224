"""The strategies of `configure_gpus`: a class for each kind, and the objects of this process."""

from keras_gpukit.distributed.strategies.registry import ACCEPTED, NAMES, choose, make

__all__ = ["ACCEPTED", "NAMES", "choose", "make"]
