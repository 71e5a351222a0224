"""The findings of a run and their evidence, as tests compare them."""

from keras_gpukit.records import Finding, RunSummary
from keras_gpukit.rules import judge

Row = tuple[str, float, str, str]


def found(code: str, summary: RunSummary) -> Finding | None:
    """Returns what a rule found in a run, or None."""
    return next((each for each in judge(summary).findings if each.code == code), None)


def codes(summary: RunSummary) -> list[str]:
    """Returns the rules that found something, in the order of the verdict."""
    return [each.code for each in judge(summary).findings]


def bounds(finding: Finding) -> tuple[float, float | None]:
    """Returns the least and the most that a finding promises to save, in seconds."""
    assert finding.saving
    return finding.saving.low_s, finding.saving.high_s


def row(key: str, value: float, unit: str = "", of: str = "") -> Row:
    """Returns a figure: its key, value, unit and what it is about."""
    return key, value, unit, of


def evidence(finding: Finding) -> list[Row]:
    return [(each.key, each.value, each.unit, each.of) for each in finding.evidence]


def by_name(finding: Finding) -> dict[str, float]:
    return {each.name: each.value for each in finding.evidence}
