"""Converts terminal output to HTML for notebooks: text that wraps, and tables.

The notebook sets the text colour, because its theme may be light or dark. Text that is coloured in
a terminal has a bar of that colour on its left instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

_CONSOLE = Console(color_system=None)
"""Looks up styles by name; nothing is printed to it."""
_BARS = {
    "red": "#d1242f",
    "yellow": "#bf8700",
    "green": "#1a7f37",
    "cyan": "#1b7c83",
}
_CARD = (
    "border:1px solid rgba(128,128,128,.5);border-radius:6px;padding:.6em 1em;margin:.3em 0;"
    "max-width:60em;line-height:1.45;overflow-x:auto"
)
_CELL = "color:inherit;padding:.15em 1.2em .15em 0;background:none;border:none;vertical-align:top"


def as_html(shown: RenderableType) -> str:
    """Returns a printable object as HTML; its text is escaped, so names may contain anything.

    Args:
        shown: A panel, a table, padding, text, a group of those, or an object with `__rich__`.

    Raises:
        TypeError: If the object or one of its parts has any other type.
    """
    if isinstance(shown, Panel):
        return card(as_html(shown.renderable), str(shown.title or ""))
    if isinstance(shown, Group):
        return "".join(map(as_html, shown.renderables))
    if isinstance(shown, Padding):
        return f'<div style="margin-left:{shown.left / 2:g}em">{as_html(shown.renderable)}</div>'
    if isinstance(shown, Table):
        return _table(shown)
    if isinstance(shown, str | Text):
        return _paragraph(Text(shown) if isinstance(shown, str) else shown)
    if hasattr(shown, "__rich__"):
        return as_html(shown.__rich__())
    raise TypeError(f"no HTML for a {type(shown).__name__}")


def card(html: str, title: str = "keras_gpukit") -> str:
    """Returns the HTML inside a frame with a title."""
    return f'<div style="{_CARD}"><div><b>{escape(title)}</b></div>{html}</div>'


def code_as_html(code: str) -> str:
    """Returns lines of code as HTML; "" if the code is empty."""
    css = "white-space:pre;overflow-x:auto;padding:.6em 0;margin:0;background:none"
    return f'<pre style="{css}">{escape(code)}</pre>' if code else ""


def _paragraph(text: Text) -> str:
    if not text.plain.strip():
        return '<div style="height:.7em"></div>'
    color = _CONSOLE.get_style(text.style).color
    bar = _BARS.get(color.name, "") if color else ""
    edge = f";border-left:4px solid {bar};padding-left:.5em" if bar else ""
    return f'<div style="white-space:pre-wrap{edge}">{_line(text)}</div>'


def _line(text: Text) -> str:
    """Returns text as HTML: dim parts stay dim, bold and coloured parts are bold."""
    parts = []
    for part, style, _ in text.render(_CONSOLE):
        css = "font-weight:600" if style and (style.bold or style.color) else ""
        css += ";opacity:.75" if style and style.dim else ""
        parts.append(f'<span style="{css}">{escape(part)}</span>' if css else escape(part))
    return "".join(parts)


def _table(table: Table) -> str:
    alignments = [f"{_CELL};text-align:{column.justify}" for column in table.columns]
    headings = [column.header for column in table.columns]
    rows = zip(*(column.cells for column in table.columns), strict=True)
    head = ""
    if table.show_header and any(str(heading) for heading in headings):
        head = f"<thead>{_row('th', headings, alignments)}</thead>"
    body = "".join(_row("td", row, alignments) for row in rows)
    return (
        '<table style="border-collapse:collapse;margin:.3em 0;font-variant-numeric:tabular-nums">'
        f"{head}<tbody>{body}</tbody></table>"
    )


def _row(tag: str, cells: Iterable[RenderableType], alignments: list[str]) -> str:
    # Rich parses string cells as markup in a terminal, so do the same here.
    texts = [Text.from_markup(str(each)) if not isinstance(each, Text) else each for each in cells]
    row = (
        f'<{tag} style="{css}">{_line(text)}</{tag}>'
        for text, css in zip(texts, alignments, strict=True)
    )
    return f"<tr>{''.join(row)}</tr>"
