"""Measures at once. It holds if it measured 2."""

import os

from benchmarks.gpu.part import Claim, Outcome, Part, Slice


def cases(small, folder):
    yield "figure", lambda: 2
    yield "kept", lambda: (folder / "kept.txt").write_text("small" if small else "full size")
    yield "variable", lambda: os.environ.get("VARIABLE")


def judge(figure):
    return Outcome(figure == 2, f"{figure} was measured.")


PART = Part(
    "quick",
    "Is it two?",
    {"all": Slice(cases, environment={"VARIABLE": "set"})},
    (Claim("two", "two is measured", judge, ("figure",)), Claim("never", "-")),
)
