"""The reference of all rules: prose from a file, and in it what their classes say."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib import import_module

from keras_gpukit.rules.known_faults import KNOWN_FAULTS, PACKAGES
from keras_gpukit.rules.rule import Measure, Rule
from keras_gpukit.rules.verdict import RULES

ROW = re.compile(r"^\| `([a-z0-9-]+)` \|(.*)\| (.+) \|$", re.MULTILINE)
"""A rule in the tables: its code, an example of its title if that varies, the first thing to do."""
SECTION = re.compile(r"^## ([a-z0-9-]+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_FIGURE = re.compile(r"\{\{ ([\w.]+)(?: (\S+))? \}\}")
"""A constant: of the rule's class or module, or with the name of its module in this room."""
_FORMS = {"%": 100, "ms": 1e3, "µs": 1e6, "MiB": 2**-20}
_FAULTS = "<!-- known faults -->"


def filled(page: str) -> str:
    """Returns the page with rules' titles, figures, charts and thresholds, as their code has them.

    A rule or a constant that does not exist raises a `LookupError`.
    """
    rules = {rule.code: rule for rule in RULES}
    page = SECTION.sub(lambda found: _section(rules[found[1]], found[2]), page)
    page = ROW.sub(lambda found: _row(rules[found[1]], found[2].strip(), found[3]), page)
    page = _FIGURE.sub(lambda found: _figure(None, *found.groups()), page)
    return page.replace(_FAULTS, "\n".join(_faults()))


def _row(rule: Rule, example: str, to_do: str) -> str:
    return f"| [`{rule.code}`](#{rule.code}) | {example or rule.title} | {to_do} |"


def _section(rule: Rule, prose: str) -> str:
    prose = _FIGURE.sub(lambda found: _figure(rule, *found.groups()), prose).rstrip()
    return f"## {rule.code}\n{prose}\n\n{' '.join(_facts(rule))}\n\n"


def _figure(rule: Rule | None, name: str, form: str | None) -> str:
    module, _, constant = name.rpartition(".")
    if module:
        value = vars(import_module(f"keras_gpukit.rules.{module}"))[constant]
    else:
        value = getattr(rule, name, None) or vars(sys.modules[type(rule).__module__])[name]
    return f"{value * _FORMS.get(form or '', 1):g} {form or ''}".rstrip()


def _facts(rule: Rule) -> Iterator[str]:
    """Yields sentences with what a rule's class says, which its prose need not repeat."""
    yield f"**In a report.** Needs {rule.requires}."
    units = {"": "…", "B": "… MB"}
    measures = (
        attr.sentence.lstrip(",; ").format(value=units.get(attr.unit, f"… {attr.unit}"), of="…")
        for owner in reversed(type(rule).__mro__)
        for attr in vars(owner).values()
        if isinstance(attr, Measure)
    )
    if figures := "*; *".join(measures):
        yield f"Figures: *{figures}*."
    if rule.charts:
        yield f"Charts: {', '.join(rule.charts)}."
    if rule.tried_by:
        yield f"`keras-gpukit tune` tries: {', '.join(rule.tried_by)}."
    if rule.yields_to_all:
        yield f"Left out next to other findings{'' if rule.yields_to_remarks else ' but remarks'}."
    if rule.supersedes:
        parts = (code.replace("_", " ").partition(": ") for code in rule.supersedes)
        others = (f"[{code}](#{code}){about and f' ({about})'}" for code, _, about in parts)
        yield f"It stands for: {', '.join(others)}."


def _faults() -> Iterator[str]:
    yield "| versions | behaviour | explains | what the run shows |"
    yield "|---|---|---|---|"
    for fault in KNOWN_FAULTS:
        repository, _, number = fault.thread.split("/")[-3:]
        python = fault.python and f", Python {fault.python}"
        yield (
            f"| {PACKAGES[fault.package]} {fault.versions}{python} "
            f"| {fault.says} ([{repository}#{number}]({fault.thread})) "
            f"| [`{fault.explains}`](#{fault.explains}) | {fault.shows.__doc__} |"
        )
