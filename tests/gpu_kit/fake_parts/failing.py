"""One case fails; the other does not, unless a file is gone that the test made."""

from pathlib import Path

from benchmarks.gpu.part import Claim, Part, Slice


def cases(small, folder):
    def fails():
        raise ValueError("the measurement failed")

    yield "failing", fails
    yield "figure", lambda: 1
    yield (
        "counted",
        lambda: (
            (folder / "seen.txt").open("a").write("x") and len(Path(folder, "seen.txt").read_text())
        ),
    )


PART = Part("failing", "Does it fail?", {"all": Slice(cases)}, (Claim("one", "-"),))
