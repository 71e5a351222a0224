"""Acts right after a module was imported, whenever that is, and imports nothing itself."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class ImportHook(MetaPathFinder):
    """Calls an action for each of some modules as soon as its code has run.

    The modules are found and loaded by whatever does so without this; their loaders stay the same.
    """

    def __init__(self, actions: dict[str, Callable[[], None]]) -> None:
        self._actions = dict(actions)
        self._under_way: set[str] = set()

    def install(self) -> None:
        """Starts to look at imports. It is removed once all actions were called."""
        sys.meta_path.insert(0, self)

    def is_under_way(self, name: str) -> bool:
        """Whether the code of one of the modules is being run."""
        return name in self._under_way

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Finds a module as the other finders do, and has its loader call the action."""
        if name not in self._actions:
            return None
        for finder in tuple(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = None
            if finder is not self and find is not None:
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
            del loader.exec_module  # the class's own is back
            self._under_way.add(name)
            try:
                execute(module)
            finally:
                self._under_way.discard(name)
            action = self._actions.pop(name, None)
            if not self._actions and self in sys.meta_path:
                sys.meta_path.remove(self)
            if action is not None:
                action()

        try:
            loader.exec_module = exec_module  # type: ignore[method-assign]
        except AttributeError:  # one that takes no attributes: the module is imported unseen
            return
