"""Checks of arguments: each raises an error that says what is accepted and what was received."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable
from numbers import Integral, Real
from pathlib import Path
from typing import Any

# Programs may use these as they like; every other one ends or stops a process, or means something.
SIGNALS = tuple(getattr(signal, name) for name in ("SIGUSR1", "SIGUSR2") if hasattr(signal, name))


def check_whole(
    name: str, value: Any, *, least: int = 1, most: int | None = None, optional: bool = False
) -> None:
    """A whole number from 1 on, or from `least`."""
    accepted = f"a whole number from {least} " + ("on" if most is None else f"to {most}")
    _check(name, value, Integral, accepted, optional, lambda v: least <= v <= (most or math.inf))


def check_number(
    name: str, value: Any, accepted: str, fits: Callable[[Any], bool], *, optional: bool = False
) -> None:
    """A finite number that fits."""

    def is_finite_and_fits(value: Any) -> bool:
        try:
            return math.isfinite(value) and fits(value)
        except OverflowError:  # a whole number that no float holds
            return False

    _check(name, value, Real, accepted, optional, is_finite_and_fits)


def check_steps(name: str, value: Any) -> None:
    """Steps of the run, the first one being 1."""
    accepted = "a list or tuple of whole numbers from 1 on"
    if not isinstance(value, (list, tuple, set, frozenset, range)):
        raise TypeError(f"`{name}` must be {accepted}. Received: {name}={value!r}")
    for each in value:
        if not _is(each, Integral):
            raise TypeError(f"`{name}` must be {accepted}. Received: {name}={value!r}")
        if each < 1:
            raise ValueError(f"`{name}` must be {accepted}. Received: {name}={value!r}")


def check_signal(name: str, value: Any) -> None:
    """A signal that is free to use."""
    accepted = " or ".join(["None", *(f"signal.{each.name}" for each in SIGNALS)])
    _check(name, value, Integral, accepted, True, lambda v: v in SIGNALS)


def check_flag(name: str, value: Any) -> None:
    """True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"`{name}` must be True or False. Received: {name}={value!r}")


def check_log_dir(log_dir: Any, *, optional: bool = True) -> Path | None:
    """Returns the log directory as a path, None where nothing is to be written.

    Args:
        log_dir: What was given.
        optional: Whether it may be None.

    Raises:
        TypeError: If it is not a path.
        ValueError: If it is empty, a file, or not on a file system.
    """
    if log_dir is None and optional:
        return None
    accepted = "a folder's path" + (", or None to write nothing" if optional else "")
    if not isinstance(log_dir, (str, os.PathLike)) or isinstance(os.fspath(log_dir), bytes):
        raise TypeError(f"`log_dir` must be {accepted}. Received: log_dir={log_dir!r}")
    text = os.fspath(log_dir)
    if not text or "\0" in text or "://" in text:
        raise ValueError(
            f"`log_dir` must be {accepted}, on a file system. Received: log_dir={log_dir!r}"
        )
    try:
        path = Path(text).expanduser()
        standing = next(
            each for each in (path.absolute(), *path.absolute().parents) if each.exists()
        )
    except (OSError, RuntimeError) as error:
        raise ValueError(
            f"`log_dir` must be {accepted} ({error}). Received: log_dir={log_dir!r}"
        ) from error
    if not standing.is_dir():
        raise ValueError(
            f"`log_dir` must be {accepted}, and {standing} is a file. Received: log_dir={log_dir!r}"
        )
    return path


def _check(
    name: str,
    value: Any,
    kind: type,
    accepted: str,
    optional: bool,
    fits: Callable[[Any], bool],
) -> None:
    if optional and value is None:
        return
    if optional and not accepted.startswith("None"):
        accepted += ", or None"
    if not _is(value, kind):
        raise TypeError(f"`{name}` must be {accepted}. Received: {name}={value!r}")
    if not fits(value):
        raise ValueError(f"`{name}` must be {accepted}. Received: {name}={value!r}")


def _is(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)
