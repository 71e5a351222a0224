"""Code within sentences of advice, which the page sets apart and can copy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_INSIDE = r"(?:[^()]|\((?:[^()]|\([^()]*\))*\))*"
_CODE = re.compile(
    # A call with its arguments, and what is called on its result.
    rf"(?:[A-Za-z_][\w.]*\({_INSIDE}\))(?:\.[A-Za-z_]\w*\({_INSIDE}\))*"
    # A command of a shell, to the end of the sentence.
    r"|(?:pip install|nvidia-smi|keras-gpukit|export) [^:;,]*[^:;,.\s]"
    # An argument, an attribute of a module.
    r"|\b[a-z_]+=(?:[\w.]+|\"[^\"]*\")|\b(?:tf|keras|ds|keras_gpukit)(?:\.\w+)+"
)


class Words(NamedTuple):
    """A part of a sentence."""

    text: str
    is_code: bool


def code_in(sentence: str) -> Iterator[Words]:
    """Yields the parts of a sentence, in order.

    Args:
        sentence: Such as "ds.cache() right after decode: do it once".
    """
    end = 0
    for found in _CODE.finditer(sentence):
        if found.start() > end:
            yield Words(sentence[end : found.start()], False)
        yield Words(found.group(), True)
        end = found.end()
    if end < len(sentence):
        yield Words(sentence[end:], False)
