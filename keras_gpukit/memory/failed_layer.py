"""The layer whose call an exception comes from, by the frames that the exception went through."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import TracebackType
from typing import Any


def failed_layer(error: BaseException) -> str | None:
    """Returns the name of the innermost layer; None where no frame is one of a layer.

    Keras raises an exception of its own in place of the first one, which stays its context. Nothing
    of either is kept.
    """
    import keras

    found = None
    for each in _chain(error):
        trace = each.__traceback__
        while trace is not None:
            layer = _layer(trace, keras.layers.Layer)
            found = layer or found
            trace = trace.tb_next
        # The context is the older one: it comes from further within.
    return found


def _layer(trace: TracebackType, kind: Any) -> str | None:
    if trace.tb_frame.f_code.co_name not in ("call", "__call__"):
        return None
    values = trace.tb_frame.f_locals
    owner = values.get("self")
    name = owner.name if isinstance(owner, kind) else None
    if sys.version_info < (3, 13):
        values.clear()  # until then it is a copy that Python keeps with the frame
    return name


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        yield each
        each = each.__cause__ or each.__context__
