"""One case fails; the other does not."""

from benchmarks.gpu.part import Part

PART = Part("failing", "Does it fail?")


@PART.slice("all", 60)
def cases(small):
    yield "failing", lambda: int("the measurement failed")
    yield "figure", lambda: 1
