"""Formats numbers with their units, and names that may contain anything, for people to read."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from keras_gpukit.records.finding import Figure

T = TypeVar("T")
LEAST_PERCENT = 0.1
"""Smaller percentages are only said to be under it: "0.0 %" would read as nothing."""
# They move the cursor, change colours or the writing direction, or cannot be encoded at all.
_CONTROLS = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB")


def number(value: float) -> str:
    """Formats a number: three significant digits below 100, else whole: "0.0123", "1,234"."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def count(number_of: int, what: str) -> str:
    """Formats a number of things: "1 step", "1,200 steps"."""
    return f"{number_of:,} {what}{'' if number_of == 1 else 's'}"


def size(count_bytes: float) -> str:
    """Formats bytes in binary units: "3.1 GiB"."""
    value = float(count_bytes)
    for unit in _SIZES[:-1]:
        if abs(value) < 1024:
            return f"{number(value)} {unit}"
        value /= 1024
    return f"{number(value)} {_SIZES[-1]}"


def duration(seconds: float) -> str:
    """Formats a duration with a unit from microseconds to hours: "62.3 ms"."""
    return duration_of(seconds, seconds)


def duration_of(seconds: float, whole_s: float) -> str:
    """Formats a part of a duration in the unit of the whole: "1.78 min" of "5 min".

    Less than 0.3 % of it (our choice) has its own unit: "12 s" of "3 h".
    """
    whole_s = seconds if seconds < 0.003 * whole_s else whole_s
    if whole_s < 1e-3:
        return f"{number(1e6 * seconds)} µs"
    if whole_s < 1:
        return f"{number(1e3 * seconds)} ms"
    if whole_s < 120:
        return f"{number(seconds)} s"
    if whole_s < 7200:
        return f"{number(seconds / 60)} min"
    return f"{number(seconds / 3600)} h"


def percentage(fraction: float) -> str:
    """Formats a fraction as a percentage, no finer than the measurement: "78 %", "0.9 %"."""
    percent = 100 * fraction
    if percent < LEAST_PERCENT:
        return f"under {LEAST_PERCENT} %" if percent else "0 %"
    return f"{percent:.0f} %" if percent >= 10 else f"{percent:.1f} %"


def span(low: str, high: str) -> str:
    """Joins two formatted figures to a range; returns one of them if they are the same."""
    return low if low == high else f"{low} to {high}"


def interval(low: float, high: float) -> str:
    """Formats the ends of an interval: "1.4 to 1.8"."""
    return f"{number(low)} to {number(high)}"


def known(value: T | None, text: Callable[[T], str], otherwise: str = "unknown") -> str:
    """Formats a value with `text`; returns `otherwise` if the value is None."""
    return otherwise if value is None else text(value)


def if_known(value: T | None, text: Callable[[T], str]) -> str | None:
    """Formats a value with `text`; returns None if the value is None."""
    return None if value is None else text(value)


def moment(time_s: float | None) -> str:
    """Formats a time, in seconds since the Unix epoch, in the local time zone."""
    if time_s is None:
        return "unknown"
    return datetime.fromtimestamp(time_s).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def printable(text: str) -> str:
    r"""Returns a text with its control characters as Python escapes, such as "\x1b".

    Line breaks are kept.
    """
    return _CONTROLS.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def measured(figure: Figure) -> str:
    """Formats a figure's value with its unit."""
    if figure.unit == "B":
        return size(figure.value)
    if figure.unit == "s":
        return duration(figure.value)
    if figure.unit == "%":
        return percentage(figure.value / 100)
    return f"{number(figure.value)} {figure.unit}".rstrip()
