"""Calls an action after a function that a script calls, unseen in the script's tracebacks."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def followed_by(
    original: Callable[..., Any],
    before: Callable[[], Any],
    after: Callable[..., None],
) -> Callable[..., Any]:
    """Returns a function like `original`; neither action must raise.

    Args:
        original: The function.
        before: Called first.
        after: Called if `original` raised nothing, with what `before` returned, and the arguments.
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
