"""Finds code within sentences of advice; the page formats it as code with a copy button."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_INSIDE = r"(?:[^()]|\((?:[^()]|\([^()]*\))*\))*"
_CODE = re.compile(
    # A call with its arguments, and calls chained to its result.
    rf"(?:[A-Za-z_][\w.]*\({_INSIDE}\))(?:\.[A-Za-z_]\w*\({_INSIDE}\))*"
    # A shell command, to the end of the sentence.
    r"|(?:pip install|nvidia-smi|keras-gpukit|export) [^:;,]*[^:;,.\s]"
    # A keyword argument, or an attribute of a module.
    r"|\b[a-z_]+=(?:[\w.]+|\"[^\"]*\")|\b(?:tf|keras|ds|keras_gpukit)(?:\.\w+)+"
)


class Words(NamedTuple):
    """A part of a sentence: code, or text without code."""

    text: str
    is_code: bool


def code_in(sentence: str) -> Iterator[Words]:
    """Yields the parts of a sentence, in order.

    Args:
        sentence: Sentence of advice, such as "ds.cache() right after decode: do it once".
    """
    end = 0
    for found in _CODE.finditer(sentence):
        if found.start() > end:
            yield Words(sentence[end : found.start()], False)
        yield Words(found.group(), True)
        end = found.end()
    if end < len(sentence):
        yield Words(sentence[end:], False)
