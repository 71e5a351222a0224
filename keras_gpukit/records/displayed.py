"""Records that notebooks show as HTML, and some as text, through views in higher-level modules.

A record does not know how it is shown. The module of its view registers the view when it is
imported. Code that creates such a record imports that module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

_R = TypeVar("_R", bound="Displayed")
_views: dict[type, Callable[[Any], str]] = {}
_texts: dict[type, Callable[[Any], str]] = {}


class Displayed:
    """Base class of records with a view."""

    def _repr_html_(self) -> str | None:
        """Returns the record as HTML for notebooks; None if no view is registered."""
        view = _views.get(type(self))
        return None if view is None else view(self)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """Has IPython show the record as `print` does where it shows no HTML."""
        return {"text/plain": str(self)}

    def __str__(self) -> str:
        """Returns the record as text for `print`, or its fields if no text view is registered."""
        text = _texts.get(type(self))
        return repr(self) if text is None else text(self)


def show_by(
    record: type[_R], view: Callable[[_R], str], text: Callable[[_R], str] | None = None
) -> None:
    """Registers how records of a class are shown."""
    _views[record] = view
    if text is not None:
        _texts[record] = text
