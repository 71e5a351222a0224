"""Variables in the closures of functions, which hold what Keras and tf.data keep to themselves."""

from __future__ import annotations

import inspect
from typing import Any


def closed_over(function: Any) -> dict[str, Any]:
    """Returns the variables in a function's closure, by name; {} if they cannot be read."""
    if not inspect.isfunction(function) or not function.__closure__:
        return {}
    try:
        cells = [cell.cell_contents for cell in function.__closure__]
    except ValueError:  # a cell is still empty
        return {}
    return dict(zip(function.__code__.co_freevars, cells, strict=True))
