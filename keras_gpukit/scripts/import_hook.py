"""Acts right after a module is imported, such as TensorFlow and Keras, or a function is called."""

from __future__ import annotations

import functools
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any

from keras_gpukit.errors import Guard

if TYPE_CHECKING:
    from keras_gpukit.scripts.custom_loop import OwnLoops
    from keras_gpukit.scripts.watched_fits import WatchedFits


class ImportHook(MetaPathFinder):
    """Calls an action for each of several modules as soon as the module's code has run.

    The usual finders find the modules, and their own loaders load them.

    Attributes:
        spent_s: Seconds in which the modules were imported so far.
    """

    def __init__(self, actions: dict[str, Callable[[], None]]) -> None:
        self.spent_s = 0.0
        self._actions = dict(actions)
        self._under_way: set[str] = set()

    def install(self) -> None:
        """Starts to watch imports. The hook is removed once all actions were called."""
        sys.meta_path.insert(0, self)

    def is_under_way(self, name: str) -> bool:
        """Whether the code of the module is running."""
        return name in self._under_way

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Finds a module with the other finders, and makes its loader call the action."""
        if name not in self._actions:
            return None
        for finder in tuple(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = None
            # Another hook would ask this one in turn. Of nested commands, the innermost one acts.
            if find is not None and not isinstance(finder, ImportHook):
                spec = find(name, path, target)
            if spec is not None:
                self._watch(name, spec)
                return spec
        return None

    def _watch(self, name: str, spec: ModuleSpec) -> None:
        loader = spec.loader
        execute = getattr(loader, "exec_module", None)
        if loader is None or execute is None:
            return

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module  # restores the method of the loader's class
            began_s = time.perf_counter()
            self._under_way.add(name)
            try:
                execute(module)
            finally:
                self._under_way.discard(name)
                if not self._under_way:  # otherwise this is a part of the other import
                    self.spent_s += time.perf_counter() - began_s
            action = self._actions.pop(name, None)
            if not self._actions and self in sys.meta_path:
                sys.meta_path.remove(self)
            if action is not None:
                action()

        try:
            loader.exec_module = exec_module  # type: ignore[method-assign]
        except AttributeError:  # a loader without attributes: the action is never called
            return


def followed_by(
    original: Callable[..., Any],
    before: Callable[[], Any],
    after: Callable[..., None],
) -> Callable[..., Any]:
    """Returns a function like `original`, unseen in tracebacks; neither action must raise.

    If `original` raises nothing, `after` gets what `before` returned, and the arguments.
    """

    @functools.wraps(original)
    def call(*arguments: Any, **named: Any) -> Any:
        noted = before()
        try:
            result = original(*arguments, **named)
        except BaseException as error:
            error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
            raise
        after(noted, *arguments, **named)
        return result

    return call


class OnImports(ImportHook):
    """Sets up GPUs once TensorFlow is imported, and watches fits once Keras is imported.

    Not earlier: settings that the script makes before its imports, such as environment variables,
    must take effect. And not later: TensorFlow's devices may start with the script's next line.

    A script that makes `tf.distribute.MultiWorkerMirroredStrategy()` itself gets the repairs of
    Keras that `configure_gpus` makes, once it has both the strategy and Keras: looking for the
    faults starts TensorFlow's devices, and then TensorFlow refuses to make the strategy. Without
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
