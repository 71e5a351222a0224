"""The line on which Python code that makes batches spends most of its time."""

from __future__ import annotations

from collections import defaultdict

from keras_gpukit.records.run import RunSummary

LEAST_S = 1.0
"""Least time within the code, in seconds, for which a line is named: seven samples. Our choice."""
MOST_OF_IT = 0.5
"""Least share of the code's time that a line must take to be named; our choice."""


def slowest_line(summary: RunSummary, location: str | None) -> str:
    """Returns the end of a title, ", 80 % of it in line 24: Image.open(path)"; "" if unknown.

    Args:
        summary: A run whose stacks were sampled.
        location: Where the code is defined, such as "train.py:20".
    """
    lines = summary.stacks.of("python", location) if summary.stacks and location else ()
    seconds: defaultdict[str, float] = defaultdict(float)
    for line in lines:
        seconds[line.place] += line.seconds
    total_s = sum(seconds.values())
    if location is None or total_s < LEAST_S:
        return ""
    place, longest_s = max(seconds.items(), key=lambda each: each[1])
    if longest_s < MOST_OF_IT * total_s:
        return ""
    file, _, number = place.rpartition(":")
    where = f"line {number}" if location.startswith(f"{file}:") else place
    source = next(line.source for line in lines if line.place == place)
    return f", {100 * longest_s / total_s:.0f} % of it in {where}: {source}".removesuffix(": ")
