"""Short names for runs in lists, and ids for links to them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from keras_gpukit.records.report import RunReport

_SEPARATORS = "-_.,= "
_LEAST = 8
"""Characters; shorter shared beginnings of the last part of a path are kept for readability."""


def common_prefix(names: Sequence[str]) -> str:
    """Returns the prefix that can be left out of all names; "" without such a prefix.

    The prefix has whole folders, then a beginning of the last part of the path that ends in a
    separator, if that is long enough: all of "resnet50-imagenet-", but nothing of "lr-".
    """
    if len(set(names)) < 2:
        return ""
    # A prefix of the first and last name in sort order is a prefix of all names between them.
    first, last = min(names), max(names)
    pairs = zip(first, last, strict=False)
    length = next((place for place, (a, b) in enumerate(pairs) if a != b), len(first))
    common = first[:length]
    folders = common.rfind("/") + 1
    within = max(common.rfind(separator) for separator in _SEPARATORS) + 1
    return common[: within if within - folders >= _LEAST else folders]


def run_id(run: RunReport) -> str:
    """Returns a run's id for links; it does not depend on other runs in the report.

    The id is the same whether the report covers the run's folder or a folder above it.
    """
    last = run.name.rpartition("/")[2]
    told = f"{run.began_s} {last}".encode("utf-8", "replace")
    return f"run-{hashlib.sha256(told).hexdigest()[:10]}"


def run_ids(runs: Sequence[RunReport]) -> tuple[str, ...]:
    """Returns a unique id for each run, also if records are copies of each other."""
    seen: dict[str, int] = {}
    ids = []
    for run in runs:
        name = run_id(run)
        seen[name] = number = seen.get(name, 0) + 1
        ids.append(name if number == 1 else f"{name}-{number}")
    return tuple(ids)
