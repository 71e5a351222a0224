"""Records that notebooks show as HTML, and some as text, by a view that lies on a floor above.

A record knows that it can be shown, not how: the module of its view says so when it is loaded.
Whatever makes such a record loads it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

R = TypeVar("R", bound="Displayed")
_views: dict[type, Callable[[Any], str]] = {}
_texts: dict[type, Callable[[Any], str]] = {}


class Displayed:
    """Base of records with a view."""

    def _repr_html_(self) -> str | None:
        """The record as HTML, for notebooks; None if no view of it is loaded."""
        view = _views.get(type(self))
        return None if view is None else view(self)

    def __str__(self) -> str:
        """The record as text, for `print`; its fields if no such view of it is loaded."""
        text = _texts.get(type(self))
        return repr(self) if text is None else text(self)


def show_by(
    record: type[R], view: Callable[[R], str], text: Callable[[R], str] | None = None
) -> None:
    """Sets how a record is shown.

    Args:
        record: Its class.
        view: Makes HTML for notebooks.
        text: Makes the text that `print` shows; None for the fields.
    """
    _views[record] = view
    if text is not None:
        _texts[record] = text
