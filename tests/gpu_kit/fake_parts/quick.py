"""Measures at once. It holds if it measured 2."""

from benchmarks.gpu.part import Claim, Outcome, Part

CLAIMS = (Claim("two", "two is measured", "another figure"), Claim("never", "-", "-"))


def measure(small, folder):
    yield "figure", 2
    (folder / "kept.txt").write_text("small" if small else "full size")


def judge(measured):
    return {"two": Outcome(measured["figure"] == 2, f"{measured['figure']} was measured.")}


PART = Part("quick", "Is it two?", 1.0, CLAIMS, measure, judge)
