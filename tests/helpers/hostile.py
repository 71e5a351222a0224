"""Records in which each text tries to run a script in the page that shows it."""

import dataclasses
import types
import typing
from typing import Any

HOSTILE = (
    "javascript:window.__pwned=1//\"' onmouseover='window.__pwned=1'>"
    '<img src=x onerror="window.__pwned=1"><svg onload=window.__pwned=1>'
    "</script></style></title></textarea><script>window.__pwned=1</script>"
    '<a href="javascript:window.__pwned=1">link</a>{{7*7}}${window.__pwned=1}\u2028%{x}'
)


def filled(kind: Any, text: str = HOSTILE) -> Any:
    """A value of a type, all fields of it set, with the same text wherever text is free."""
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        made = {field.name: hints[field.name] for field in dataclasses.fields(kind) if field.init}
        return kind(**{name: filled(hint, text) for name, hint in made.items()})
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return arguments[0]
    if origin in (typing.Union, types.UnionType):
        return filled(next(each for each in arguments if each is not type(None)), text)
    if origin is tuple:
        several = arguments[:1] if arguments[-1] is Ellipsis else arguments
        return tuple(filled(each, text) for each in several)
    if origin is not None and issubclass(origin, typing.Mapping):
        return {filled(arguments[0], text): filled(arguments[1], text)}
    return {str: text, bool: True, int: 1, float: 0.5}[kind]
