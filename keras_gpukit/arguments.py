"""Checks of arguments: each raises an error that says what is accepted and what was received."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from inspect import signature
from itertools import chain
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, NoReturn, ParamSpec

P = ParamSpec("P")


def refuse(argument: str, accepted: str, value: Any, error: type[Exception]) -> NoReturn:
    """Raises `error` with the wording that every refusal uses."""
    raise error(f"`{argument}` must be {accepted}. Received: {argument}={value!r}")


def check_compiled(model: Any) -> None:
    """Checks that the argument `model` is a compiled Keras model."""
    import keras

    if not isinstance(model, keras.Model):
        refuse("model", "a compiled keras.Model", model, TypeError)
    if not model.compiled:
        raise ValueError(
            "`model` must be compiled: call model.compile() first. "
            f"Received: a model named {model.name!r} that is not"
        )


def likely(name: str, known: Iterable[str]) -> str:
    """Returns "did you mean NAME?" of a known name that begins so or is close; "" without one."""
    names = [*known]
    near = [word for word in names if word.startswith(name)] or get_close_matches(name, names, 1)
    return f"did you mean {near[0]}?" if name and near else ""


def naming_likely(init: Callable[P, None]) -> Callable[P, None]:
    """Lets a constructor refuse an unknown argument with the name that was likely meant."""
    known = [*signature(init).parameters][1:]
    owner = init.__qualname__.partition(".")[0]

    @functools.wraps(init)
    def checked(*args: P.args, **given: P.kwargs) -> None:
        for name in given.keys() - {*known}:
            hint = likely(name, known) or f"it has {', '.join(known)}."
            received = f"Received: {name}={given[name]!r}"
            raise TypeError(f"{owner} has no argument `{name}`: {hint} {received}")
        init(*args, **given)

    return checked


def is_a(value: Any, kind: type) -> bool:
    """Whether a value is a number of a kind. Booleans do not count: True does not mean GPU 1."""
    return isinstance(value, kind) and not isinstance(value, bool)


def check(
    name: str,
    value: Any,
    kind: type,
    accepted: str,
    fits: Callable[[Any], bool],
    *,
    optional: bool = False,
) -> None:
    """Checks for a number of a kind that fits.

    Args:
        name: Name of the argument.
        value: Value of the argument.
        kind: Kind of number: `numbers.Integral` or `numbers.Real`.
        accepted: Description of the accepted values, for the message.
        fits: Returns whether a number of that kind is accepted.
        optional: Whether the value may be None.

    Raises:
        TypeError: If the value is of another kind.
        ValueError: If the value does not fit.
    """
    if optional and value is None:
        return
    if optional and not accepted.startswith("None"):
        accepted += ", or None"
    if not is_a(value, kind):
        refuse(name, accepted, value, TypeError)
    if not fits(value):
        refuse(name, accepted, value, ValueError)


def check_whole(
    name: str, value: Any, *, least: int = 1, most: int | None = None, optional: bool = False
) -> None:
    """Checks for a whole number from `least` to `most`; None for no upper limit."""
    accepted = f"a whole number from {least} " + ("on" if most is None else f"to {most}")
    fits = lambda v: least <= v <= (most or math.inf)  # noqa: E731
    check(name, value, Integral, accepted, fits, optional=optional)


def check_number(
    name: str, value: Any, accepted: str, fits: Callable[[Any], bool], *, optional: bool = False
) -> None:
    """Checks for a finite number that fits."""

    def is_finite_and_fits(value: Any) -> bool:
        try:
            return math.isfinite(value) and fits(value)
        except OverflowError:  # a whole number that is too large for a float
            return False

    check(name, value, Real, accepted, is_finite_and_fits, optional=optional)


def check_steps(name: str, value: Any) -> None:
    """Checks for a collection of steps of the run, where the first step is 1."""
    accepted = "a list or tuple of whole numbers from 1 on"
    if not isinstance(value, (list, tuple, set, frozenset, range)):
        refuse(name, accepted, value, TypeError)
    for step in value:
        if not is_a(step, Integral):
            refuse(name, accepted, value, TypeError)
        if step < 1:
            refuse(name, accepted, value, ValueError)


def check_flag(name: str, value: Any) -> None:
    """Checks for True or False."""
    if not isinstance(value, bool):
        refuse(name, "True or False", value, TypeError)


def check_auto_or_flag(name: str, value: Any) -> None:
    """Checks for "auto", True or 1, False or 0."""
    if not (isinstance(value, (int, str)) and value in ("auto", True, False)):
        refuse(name, '"auto", True (1) or False (0)', value, ValueError)


Verbose = Literal["auto", 0, 1, 2] | bool
"""How much is printed: 0 nothing, 1 the result, 2 the result with all details. "auto" means 1,
where nothing else is said. True counts as 1 and False as 0, as in Keras."""


def check_verbose(value: Any) -> Any:
    """Checks for a `Verbose`, and returns it."""
    if not isinstance(value, (int, str)) or value not in ("auto", 0, 1, 2):
        refuse("verbose", '"auto", 0, 1 or 2', value, ValueError)
    return value


def check_log_dir(log_dir: Any, *, optional: bool = True) -> Path | None:
    """Returns the log directory as a path; None if nothing is to be written.

    Args:
        log_dir: Value of the argument.
        optional: Whether the value may be None.

    Raises:
        TypeError: If the value is not a path.
        ValueError: If the path is empty, is or lies in a file, or is not on a file system.
    """
    if log_dir is None and optional:
        return None
    accepted = "a folder's path" + (", or None to write nothing" if optional else "")
    if not isinstance(log_dir, (str, os.PathLike)) or isinstance(os.fspath(log_dir), bytes):
        refuse("log_dir", accepted, log_dir, TypeError)
    text = os.fspath(log_dir)
    if "://" in text:
        where = "on a file system, since run.jsonl is locked and appended to; mount the bucket"
        refuse(
            "log_dir", f"{accepted}, {where}, or copy the folder there later", log_dir, ValueError
        )
    if not text or "\0" in text:
        refuse("log_dir", f"{accepted}; an empty one names no folder", log_dir, ValueError)
    try:
        path = Path(text).expanduser()
        if path.is_dir():
            return path
        absolute = path.absolute()
        standing = next(parent for parent in chain([absolute], absolute.parents) if parent.exists())
    except (OSError, RuntimeError) as error:
        raise ValueError(
            f"`log_dir` must be {accepted} ({error}). Received: log_dir={log_dir!r}"
        ) from error
    if not standing.is_dir():
        refuse("log_dir", f"{accepted}, and {standing} is a file", log_dir, ValueError)
    return path
