"""Text that a terminal shows and does not obey.

Names of runs, stages, models and processes may have any characters in them: those that move the
cursor, change colours or the direction of writing, and those that no encoding has.
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
    r"""Returns a text with its control characters written as Python writes them: "\x1b".

    Lines stay lines.
    """
    return _CONTROLS.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def plain(text: str, style: str = "") -> Text:
    """Returns the same for a panel, in which it is no markup either."""
    from rich.text import Text  # a script that is run unchanged may look at what is loaded

    return Text(printable(text), style=style)


def as_text(shown: RenderableType) -> str:
    """Returns what a terminal of 100 columns shows, without colours."""
    from rich.console import Console

    text = io.StringIO()
    Console(width=100, file=text).print(shown)
    return text.getvalue()
