"""Sets up TensorFlow and Keras right after a script has imported them.

Not earlier: settings that the script makes before its imports, such as environment variables, must
take effect. And not later: TensorFlow's devices may start with the script's next line.

A script that makes `tf.distribute.MultiWorkerMirroredStrategy()` itself gets the repairs of Keras
that `configure_gpus` makes, once it has both the strategy and Keras: looking for the faults starts
TensorFlow's devices, and then TensorFlow refuses to make the strategy.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from keras_gpukit.errors import Guard
from keras_gpukit.scripts.custom_loop import OwnLoops
from keras_gpukit.scripts.import_hook import ImportHook, followed_by
from keras_gpukit.scripts.watched_fits import WatchedFits


class OnImports(ImportHook):
    """Sets up GPUs once TensorFlow is imported, and watches fits once Keras is imported.

    Keras is also repaired for a multi-worker strategy that the script makes itself. Without
    settings, `configure_gpus` is not called.
    """

    def __init__(
        self,
        fits: WatchedFits | None = None,
        loops: OwnLoops | None = None,
        gpu_settings: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        super().__init__({"tensorflow": self._tensorflow, "keras": self._keras})
        self._fits = fits
        self._loops = loops
        self._gpu_settings = dict(gpu_settings)
        self._has_strategy = self._has_keras = False

    def _tensorflow(self) -> None:
        if self._loops is not None:
            self._loops.install()
        if self._fits is not None:
            self._fits.profiles.install()
        self._watch_strategies()
        if not self.is_under_way("keras"):  # otherwise Keras is not ready for settings yet
            self._set_gpus_up()

    def _keras(self) -> None:
        import keras

        if "tensorflow" in sys.modules:
            self._set_gpus_up()
        self._has_keras = True
        self._repair()
        if self._fits is not None and keras.backend.backend() == "tensorflow":
            self._fits.install()

    def _watch_strategies(self) -> None:
        import tensorflow as tf

        def made(_: None, strategy: Any, *args: Any, **kwargs: Any) -> None:
            from keras_gpukit.distributed.strategies import is_multi_worker

            self._has_strategy = self._has_strategy or is_multi_worker(strategy)
            self._repair()

        strategy_class = tf.distribute.MultiWorkerMirroredStrategy
        strategy_class.__init__ = followed_by(strategy_class.__init__, lambda: None, made)

    def _repair(self) -> None:
        """Repairs Keras once there is also a strategy over several workers."""
        if self._has_strategy and self._has_keras:
            from keras_gpukit.distributed.repairs import repair_multi_worker

            with Guard("Repairing Keras for several workers", "Its fit() may fail."):
                repair_multi_worker()

    def _set_gpus_up(self) -> None:
        if not self._gpu_settings:
            return
        settings = {"strategy": "none", **self._gpu_settings}
        self._gpu_settings = {}
        import tensorflow as tf
        from rich.console import Console

        from keras_gpukit.configure.api import configure_gpus
        from keras_gpukit.errors import GPUKitError

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the printed setup contains the warnings
                setup = configure_gpus(**settings, verbose=False)
            if setup.strategy is not None:
                tf.distribute.experimental_set_strategy(setup.strategy)
        except (GPUKitError, TypeError, ValueError) as error:
            print(f"keras-gpukit run: {error}", file=sys.stderr)
            raise SystemExit(2) from None
        Console(stderr=True).print(setup)
