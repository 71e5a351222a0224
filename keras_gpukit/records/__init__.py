"""Frozen dataclasses that all other modules exchange, and functions that save and load them.

None is what is unknown, or does not exist. A field that ends in `_because` says why, in words.
Units end the names: `_s` are seconds, `_bytes` bytes, `_percent` 0 to 100, `_fraction` and `share`
0 to 1. Moments (`time_s`, `began_s`, `ended_s`, `made_s`) are seconds since the Unix epoch. The
`step` is the global step, which a later run of the same model continues. Docstrings describe the
fields whose names do not say it all.

Notebooks and tests import any of them from here; the package itself loads only the files it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from keras_gpukit.records.cluster import *  # noqa: F403
    from keras_gpukit.records.codec import *  # noqa: F403
    from keras_gpukit.records.comparison import *  # noqa: F403
    from keras_gpukit.records.environment import *  # noqa: F403
    from keras_gpukit.records.event import *  # noqa: F403
    from keras_gpukit.records.finding import *  # noqa: F403
    from keras_gpukit.records.installation import *  # noqa: F403
    from keras_gpukit.records.machine import *  # noqa: F403
    from keras_gpukit.records.memory import *  # noqa: F403
    from keras_gpukit.records.names import *  # noqa: F403
    from keras_gpukit.records.pipeline import *  # noqa: F403
    from keras_gpukit.records.placement import *  # noqa: F403
    from keras_gpukit.records.profile import *  # noqa: F403
    from keras_gpukit.records.report import *  # noqa: F403
    from keras_gpukit.records.run import *  # noqa: F403
    from keras_gpukit.records.script import *  # noqa: F403
    from keras_gpukit.records.steps import *  # noqa: F403
    from keras_gpukit.records.tuning import *  # noqa: F403


def __getattr__(name: str) -> Any:
    if not name.startswith("_"):
        for file in iter_modules(__path__, f"{__name__}."):  # noqa: F405
            names = vars(import_module(file.name))
            if name in names:
                return names[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_R = TypeVar("_R", bound="Displayed")
_views: dict[type, tuple[Callable[[Any], str], Callable[[Any], str]]] = {}


class Displayed:
    """Base class of records that notebooks show as HTML, and `print` as text, through a view.

    A record does not know how it is shown. The module of its view registers the view when it is
    imported. Code that creates such a record imports that module.
    """

    def _repr_html_(self) -> str | None:
        """Returns the record as HTML for notebooks; None if no view is registered."""
        view = _views.get(type(self))
        return None if view is None else view[0](self)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """Has IPython show the record as `print` does where it shows no HTML."""
        return {"text/plain": str(self)}

    def __str__(self) -> str:
        """Returns the record as text for `print`, or its fields if no view is registered."""
        view = _views.get(type(self))
        return repr(self) if view is None else view[1](self)


def show_by(record: type[_R], html: Callable[[_R], str], text: Callable[[_R], str]) -> None:
    """Registers how records of a class are shown."""
    _views[record] = html, text
