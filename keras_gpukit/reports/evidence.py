"""A finding in sentences: its evidence, what it saves, and its advice, with code apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from keras_gpukit.errors import one_line
from keras_gpukit.records.finding import Advice, Finding, Saving, Verdict
from keras_gpukit.reports import units
from keras_gpukit.rules.rule import TOO_SHORT

_NEARLY_EXACT = 1.25
"""Ranges of a saving are shown as one figure, after "about", if their upper end is at most this
many times their lower one. Our choice."""
_LEAST = 0.02
"""Lower ends of a saving under this share of the upper one are left out; our choice."""


def checks(verdict: Verdict) -> str | None:
    """Returns how many checks don't apply, and why: "no GPU (14)"; None if all did."""
    reasons = Counter(
        TOO_SHORT
        if code in verdict.too_short
        else "no profile"
        if "a profile" in reason
        else one_line(reason)
        for code, reason in verdict.not_applicable.items()
    )
    if not reasons:
        return None
    listed = ", ".join(f"{reason} ({count})" for reason, count in reasons.most_common())
    count = reasons.total()
    return f"{units.count(count, 'check')} {'does' if count == 1 else 'do'}n't apply: {listed}"


def saved(saving: Saving) -> str:
    """Formats a saving: "1.4× to 1.8× faster (saves 2.4 to 4.1 of 9 s)".

    The factor is left out if it is unknown or would read 1: "saves up to 0.2 of 9 s".
    """
    least_s = saving.low_s if saving.low_s >= _LEAST * (saving.high_s or 0.0) else None
    low, high = (_amount(end, saving.of_s) if end else None for end in (least_s, saving.high_s))
    span = _span(low, high)
    if low and saving.low_s <= (saving.high_s or 0.0) <= _NEARLY_EXACT * saving.low_s:
        span = f"about {_amount(float(f'{saving.expected_s:.2g}'), saving.of_s)}"
    saves = f"saves {span} of {units.duration(saving.of_s)}"
    low, high = _factor(saving.speed_up), _factor(saving.highest_speed_up)
    return f"{_span(low, high)} faster ({saves})" if low or high else saves


def _amount(part_s: float, of_s: float) -> str:
    """Formats a part of a duration, without the unit if that is the unit of the whole."""
    unit = units.duration(of_s).rpartition(" ")[2]
    return units.duration_of(part_s, of_s).removesuffix(f" {unit}")


def _span(low: str | None, high: str | None) -> str:
    """Returns a range of two figures in words."""
    if low is None:
        return f"up to {high}" if high else "an unknown part"
    return f"at least {low}" if high is None else units.span(low, high)


def _factor(speed_up: float | None) -> str | None:
    """Returns a factor with one decimal; None if it is unknown or would read 1."""
    rounded = round(speed_up or 1.0, 1)
    return f"{units.number(rounded)}×" if rounded > 1 else None


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


def sentence(text: str) -> str:
    """Capitalizes the first letter, unless the first word looks like a name."""
    first = text.partition(" ")[0]
    return capitalized(text) if first.isalpha() and first.islower() else text


def advice_of(finding: Finding) -> tuple[tuple[Words, ...], ...]:
    """Returns each line of a finding's advice as its parts: words and code in turn."""
    actions = finding.actions or tuple(map(Advice, finding.advice))
    return tuple(tuple(_parts(action)) for action in actions)


def _parts(advice: Advice) -> Iterator[Words]:
    rest = advice.text
    for code in advice.code:
        before, _, rest = rest.partition(code)
        yield from (Words(before, False), Words(code, True))
    yield Words(rest, False)
