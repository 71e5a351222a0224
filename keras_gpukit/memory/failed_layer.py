"""Finds the layer whose call raised an exception, from the stack frames in the traceback."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import TracebackType
from typing import Any


def failed_layer(error: BaseException) -> str | None:
    """Returns the name of the innermost layer in the traceback; None if it contains no layer.

    Keras raises its own exception in place of the original one. The original stays available as
    the context of the new one, so both are searched. No reference to either is kept.
    """
    import keras

    found = None
    for each in _chain(error):
        trace = each.__traceback__
        while trace is not None:
            layer = _layer(trace, keras.layers.Layer)
            found = layer or found
            trace = trace.tb_next
        # The cause or context is the older exception: its frames are further within.
    return found


def _layer(trace: TracebackType, kind: Any) -> str | None:
    if trace.tb_frame.f_code.co_name not in ("call", "__call__"):
        return None
    values = trace.tb_frame.f_locals
    owner = values.get("self")
    name = owner.name if isinstance(owner, kind) else None
    if sys.version_info < (3, 13):
        values.clear()  # before Python 3.13, the frame keeps this copy alive
    return name


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        yield each
        each = each.__cause__ or each.__context__
