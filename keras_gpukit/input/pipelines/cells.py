"""Readable places of code: the line of a file, or of a notebook cell."""

from __future__ import annotations

import os
import re
import sys

# "In[3]", as IPython calls a cell in its tracebacks.
_IN_CELL = re.compile(r"In\s*\[(\d+)\]")
# The files of cells: /tmp/ipykernel_123/456.py in Jupyter, <ipython-input-3-abc> in terminals and
# older Colab.
_CELL_FILES = re.compile(r"ipykernel_\d+|ipython-input-(?P<number>\d+)-[0-9a-f]+")


def place(filename: str, line: int) -> str:
    """Returns "train.py:12", or "cell 3, line 4" for code that was run in a notebook."""
    cell = _cell(filename)
    return f"{os.path.basename(filename)}:{line}" if cell is None else f"{cell}, line {line}"


def _cell(filename: str) -> str | None:
    """Returns the name of a cell, with the number that the notebook shows; None for a file."""
    number = _number_by_ipython(filename)
    if number is not None:
        return f"cell {number}"
    like_a_cell = _CELL_FILES.search(filename)
    if like_a_cell is None:
        return None
    return f"cell {like_a_cell['number']}" if like_a_cell["number"] else "a notebook's cell"


def _number_by_ipython(filename: str) -> str | None:
    ipython = sys.modules.get("IPython")
    if ipython is None:
        return None
    try:
        # Returns ("Cell", "In[3]"), or None for a file; available since IPython 8.0.
        _, name = ipython.get_ipython().compile.format_code_name(filename)
    except (AttributeError, TypeError, ValueError):
        return None
    cell = _IN_CELL.search(str(name))
    return cell[1] if cell else None
