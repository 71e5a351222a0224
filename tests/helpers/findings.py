"""The evidence of a finding, as tests compare it."""

from __future__ import annotations

from keras_gpukit.records import Finding

Row = tuple[str, float, str, str]


def row(key: str, value: float, unit: str = "", of: str = "") -> Row:
    """Returns a figure: its key, value, unit and what it is about."""
    return key, value, unit, of


def evidence(finding: Finding) -> list[Row]:
    """Returns the rows of a finding."""
    return [(each.key, each.value, each.unit, each.of) for each in finding.evidence]


def by_name(finding: Finding) -> dict[str, float]:
    """Returns the values of a finding by their names."""
    return {each.name: each.value for each in finding.evidence}
