"""Repairs Keras for a multi-worker strategy that the script makes itself.

`configure_gpus` repairs Keras when it makes the strategy. A script that calls
`tf.distribute.MultiWorkerMirroredStrategy()` gets the same repairs, once it has both the strategy
and Keras. Not earlier: looking for the faults starts TensorFlow's devices, and then TensorFlow
refuses to make the strategy.
"""

from __future__ import annotations

import functools
from typing import Any

from keras_gpukit.errors import Guard


class OwnStrategies:
    """Repairs Keras when the script has made a strategy over several workers."""

    def __init__(self) -> None:
        self._is_made = self._has_keras = False

    def watch(self) -> None:
        """Starts to watch for strategies; called once TensorFlow was imported."""
        import tensorflow as tf

        from keras_gpukit.distributed.strategies import is_multi_worker

        strategy_class = tf.distribute.MultiWorkerMirroredStrategy
        original = strategy_class.__init__

        @functools.wraps(original)
        def make(strategy: Any, *args: Any, **kwargs: Any) -> None:
            original(strategy, *args, **kwargs)
            self._is_made = self._is_made or is_multi_worker(strategy)
            self._repair()

        strategy_class.__init__ = make

    def keras_imported(self) -> None:
        """Notes that Keras was imported."""
        self._has_keras = True
        self._repair()

    def _repair(self) -> None:
        if self._is_made and self._has_keras:
            from keras_gpukit.distributed.repairs import repair_multi_worker

            with Guard("Repairing Keras for several workers", "Its fit() may fail."):
                repair_multi_worker()
