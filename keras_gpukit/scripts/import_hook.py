"""Runs an action right after a module is imported, or after a function that a script calls."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


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
