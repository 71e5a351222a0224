"""Printing to a terminal, whatever its encoding."""

from __future__ import annotations

from rich.console import Console, RenderableType

_ASCII = str.maketrans({"µ": "u", "×": "x"})


def print_anywhere(renderable: RenderableType, console: Console | None = None) -> None:
    """Prints to a console; one that lacks the characters of units gets them in ASCII.

    Args:
        renderable: What to print.
        console: Standard output by default, without colours if that is not a terminal.
    """
    console = console or Console()
    try:
        "µ×".encode(console.encoding)
    except UnicodeEncodeError:
        with console.capture() as capture:
            console.print(renderable)
        console.file.write(capture.get().translate(_ASCII))
    else:
        console.print(renderable)
