"""The evidence of a finding, in sentences, and its advice, with code apart from words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from keras_gpukit.records.finding import Advice, Finding
from keras_gpukit.reports import units
from keras_gpukit.reports.phrases import saved


class Words(NamedTuple):
    """A part of a line of advice: code, or text without code."""

    text: str
    is_code: bool


def evidence_sentences(finding: Finding) -> tuple[str, ...]:
    """Returns a finding's figures in sentences, such as "A step waits 10 ms for its batch."."""
    sentences: list[str] = []
    for figure in finding.evidence:
        # A record may hold any text: no other words in braces mean anything.
        clause = figure.sentence.replace("{value}", units.measured(figure))
        clause = clause.replace("{of}", figure.of)
        if clause[:1] not in (",", ";"):
            sentences.append(clause)
        elif sentences:
            sentences[-1] += clause
        else:
            sentences.append(capitalized(clause[1:].lstrip()))
    if finding.defined:
        sentences.append(finding.defined)
    return tuple(f"{sentence}." for sentence in sentences)


def in_one_line(finding: Finding) -> str:
    """Returns a finding's figures, and the saving from fixing it, in sentences on one line."""
    return " ".join((*evidence_sentences(finding), *gain(finding)))


def gain(finding: Finding) -> tuple[str, ...]:
    """Returns what fixing it brings, and what that is based on, as a sentence; () if unknown."""
    saving = finding.saving
    return () if saving is None else (f"{capitalized(saved(saving))}, basis: {saving.basis}.",)


def capitalized(text: str) -> str:
    """Returns a text with a capital first letter, and all others as they are."""
    return text[:1].upper() + text[1:]


def advice_of(finding: Finding) -> tuple[tuple[Words, ...], ...]:
    """Returns each line of a finding's advice as its parts: words and code in turn."""
    actions = finding.actions or tuple(map(Advice, finding.advice))
    return tuple(tuple(_parts(each)) for each in actions)


def _parts(advice: Advice) -> Iterator[Words]:
    rest = advice.text
    for code in advice.code:
        before, _, rest = rest.partition(code)
        yield from (Words(before, False), Words(code, True))
    yield Words(rest, False)
