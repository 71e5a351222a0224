"""Measures at once. It holds if it measured 2."""

import os

from benchmarks.gpu.part import Claim, Outcome, Part, Slice

CLAIMS = (Claim("two", "two is measured"), Claim("never", "-"))


def cases(small, folder):
    yield "figure", lambda: 2
    yield "kept", lambda: (folder / "kept.txt").write_text("small" if small else "full size")
    yield "variable", lambda: os.environ.get("VARIABLE")


def judge(measured):
    return {"two": Outcome(measured["figure"] == 2, f"{measured['figure']} was measured.")}


PART = Part(
    "quick",
    "Is it two?",
    {"all": Slice(cases, environment={"VARIABLE": "set"})},
    CLAIMS,
    judge,
)
