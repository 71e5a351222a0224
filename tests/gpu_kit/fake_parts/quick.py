"""Measures at once. It holds if it measured 2."""

from benchmarks.gpu.part import Outcome, Part

PART = Part("quick", "Is it two?")


@PART.slice("all", 60)
def cases(small):
    yield "figure", lambda: 2
    yield "size", lambda: "small" if small else "full size"


@PART.claim("two is measured", "figure")
def two(figure):
    return Outcome(figure == 2, f"{figure} was measured.")


@PART.claim("-", "absent")
def never(absent):
    raise AssertionError("it is not measured")
