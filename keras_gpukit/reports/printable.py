"""Makes text safe to print: a terminal shows control characters instead of obeying them.

Names of runs, stages, models and processes may contain any character. Some characters move the
cursor, change colours or change the writing direction; lone surrogates cannot be encoded at all.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

_CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    r"""Returns a text with its control characters as Python escapes, such as "\x1b".

    Line breaks are kept.
    """
    return _CONTROLS.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def plain(text: str, style: str = "") -> Text:
    """Returns a text for a panel: control characters are escaped, markup is not parsed."""
    from rich.text import Text  # a script run unchanged may check which modules are loaded

    return Text(printable(text), style=style)


def as_text(shown: RenderableType) -> str:
    """Returns the text that a terminal of 100 columns shows, without colours."""
    from rich.console import Console

    text = io.StringIO()
    Console(width=100, file=text).print(shown)
    return text.getvalue()
