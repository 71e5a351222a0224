"""Text, tables and panels for terminals, and the same in the output of notebooks."""

from __future__ import annotations

import contextvars
import errno
import io
import os
import shlex
import sys
from collections.abc import Callable, Container, Iterable, Sequence
from html import escape
from importlib import import_module
from typing import TypeVar

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table as RichTable
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from keras_gpukit.records import Displayed, show_by
from keras_gpukit.reports.units import printable

R = TypeVar("R", bound=Displayed)
_ASCII = str.maketrans({"µ": "u", "×": "x", "→": "->"})
# Legible on a light page and on a dark one. The notebook itself sets the colour of plain text.
_ANSI = [(140,) * 3, (209, 36, 47), (26, 127, 55), (191, 135, 0), *[(27, 124, 131)] * 4]
_THEME = TerminalTheme((255,) * 3, (24,) * 3, _ANSI)
_HTML = (
    '<pre style="white-space:pre;overflow-x:auto;line-height:normal;background:none;'
    "font-family:Menlo,'DejaVu Sans Mono',Consolas,monospace\">{code}</pre>"
)
_DIM = "color: #8b8b8b; text-decoration-color: #8b8b8b"
"""Rich's style of dim text in this theme: a mean of its two colours."""
_COLUMNS = 100
_SHELL = "ZMQInteractiveShell"
"""Class of the shells in the kernels of notebooks; Colab's is a subclass."""


class PipedConsole(Console):
    """A console whose reader may end before it, such as `head`.

    Rich would then end the process with 1, and with it a training that prints its verdict.
    """

    def on_broken_pipe(self) -> None:
        """Raises what `print` raises."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def plain(text: str, style: str = "") -> Text:
    """Returns a text for a panel: control characters are escaped, markup is not parsed."""
    return Text(printable(text), style=style)


def table(
    rows: Iterable[Sequence[str | Text]], heads: Sequence[str] = (), numbers: Container[str] = ()
) -> RichTable:
    """Returns a table without lines; strings are never parsed as markup.

    `numbers` are the headings of the columns that are on the right and not wrapped.
    """
    made = RichTable(box=None, pad_edge=False, show_header=any(heads))
    for head in heads:
        is_number = head in numbers
        made.add_column(plain(head), justify="right" if is_number else "left", no_wrap=is_number)
    for row in rows:
        made.add_row(*(plain(cell) if isinstance(cell, str) else cell for cell in row))
    return made


def panel(parts: Iterable[RenderableType | None], title: str = "keras-gpukit") -> Panel:
    """Returns a frame with a title around parts, without those that are None."""
    shown = (part for part in parts if part is not None)
    return Panel(Group(*shown), title=plain(title), title_align="left", expand=False)


def as_text(shown: RenderableType) -> str:
    """Returns the text that a terminal of 100 columns shows, without colours."""
    text = io.StringIO()
    # A notebook's kernel asks for colours by an environment variable.
    Console(width=_COLUMNS, file=text, force_terminal=False, force_jupyter=False).print(shown)
    return text.getvalue()


def as_html(shown: RenderableType) -> str:
    """Returns what a terminal shows as HTML, for notebooks; its text is escaped."""
    console = Console(
        file=io.StringIO(), record=True, width=_COLUMNS, highlight=False, force_jupyter=False
    )
    console.print(shown)
    html = console.export_html(theme=_THEME, code_format=_HTML, inline_styles=True)
    return html.replace(_DIM, "opacity: 0.75")


def show_as(kind: type[R], render: Callable[[R], RenderableType]) -> None:
    """Registers how notebooks, and `print`, show the records of a class."""
    show_by(kind, lambda record: as_html(render(record)), lambda record: as_text(render(record)))


def is_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return any(base.__name__ == _SHELL for base in type(shell).__mro__)


def profiled_again() -> str | None:
    """Returns the command that runs this process's script with a profile; None without a script."""
    main = sys.modules.get("__main__")
    name = getattr(getattr(main, "__spec__", None), "name", "__main__")
    is_ours = name.startswith("keras_gpukit.") or "".join(sys.argv[:1]).endswith("keras-gpukit")
    if is_ours or not getattr(main, "__file__", None):
        return None
    script = sys.argv[:1] if name == "__main__" else ["-m", name.removesuffix(".__main__")]
    return shlex.join(["keras-gpukit", "run", "--profile", *script, *sys.argv[1:]])


def print_anywhere(renderable: RenderableType, console: Console | None = None) -> None:
    """Prints to a console, with ASCII replacements if its encoding lacks "µ", "×" or "→".

    Without a console, it prints to standard output, without colours if that is no terminal. In a
    notebook it is shown in the cell's output.
    """
    if console is None and is_notebook():
        bundle = {"text/html": as_html(renderable), "text/plain": as_text(renderable)}
        import_module("IPython.display").display(bundle, raw=True)
        return
    console = console or PipedConsole()
    try:
        "".join(map(chr, _ASCII)).encode(console.encoding)
    except UnicodeEncodeError:
        with console.capture() as capture:
            console.print(renderable)
        console.file.write(capture.get().translate(_ASCII))
    else:
        console.print(renderable)


class LiveDisplay:
    """Text in the output of the running cell that is replaced in place, from any thread.

    A front end that can replace nothing keeps the first one.
    """

    def __init__(self, text: str) -> None:
        # The kernel finds the cell by a context variable, which a new thread lacks.
        self._context = contextvars.copy_context()
        self._handle = import_module("IPython.display").DisplayHandle()
        self._handle.display(_bundle(text), raw=True)

    def show(self, text: str) -> None:
        """Replaces the text."""
        self._context.run(self._handle.update, _bundle(text), raw=True)


def _bundle(text: str) -> dict[str, str]:
    wrapped = _HTML.replace("white-space:pre;", "white-space:pre-wrap;")
    return {"text/html": text and wrapped.format(code=escape(text)), "text/plain": text}
