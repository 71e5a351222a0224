"""What runs are called where many are shown: short names, and ids for links."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from keras_gpukit.records.report import RunReport

_SEPARATORS = "-_.,= "
_LEAST = 8
"""A shorter beginning that names share, within the last part of a path, stays: it reads better."""


def common_prefix(names: Sequence[str]) -> str:
    """What all names begin with, up to a separator; "" where that says nothing.

    Whole folders are left out, and a long beginning of the last part: all of "resnet50-imagenet-"
    and nothing of "lr-".
    """
    if len(set(names)) < 2:
        return ""
    # What the first and the last in order share, all between them share too.
    first, last = min(names), max(names)
    pairs = zip(first, last, strict=False)
    length = next((place for place, (a, b) in enumerate(pairs) if a != b), len(first))
    common = first[:length]
    folders = common.rfind("/") + 1
    within = max(common.rfind(separator) for separator in _SEPARATORS) + 1
    return common[: within if within - folders >= _LEAST else folders]


def run_id(run: RunReport) -> str:
    """Returns an id for links, which stays while other runs come and go.

    It is the same whether the report is of the run's folder or of one above.
    """
    last = run.name.rpartition("/")[2]
    told = f"{run.began_s} {last}".encode("utf-8", "replace")
    return f"run-{hashlib.sha256(told).hexdigest()[:10]}"


def run_ids(runs: Sequence[RunReport]) -> tuple[str, ...]:
    """Returns an id for each run; no two are the same, even of copied records."""
    seen: dict[str, int] = {}
    ids = []
    for run in runs:
        name = run_id(run)
        seen[name] = number = seen.get(name, 0) + 1
        ids.append(name if number == 1 else f"{name}-{number}")
    return tuple(ids)
