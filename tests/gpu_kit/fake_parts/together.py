"""Two slices that only end if they run at the same time, and one that must be alone."""

import time

from benchmarks.gpu.part import Claim, Part, Slice


def meets(own, other):
    def cases(small, folder):
        def meet():
            (folder / own).touch()
            while not (folder / other).exists():
                time.sleep(0.01)
            return sorted(each.name for each in folder.iterdir())

        yield own, meet

    return Slice(cases, alone=False)


def alone(small, folder):
    yield "alone", lambda: sorted(each.name for each in folder.iterdir())


PART = Part(
    "together",
    "Do they meet?",
    {"one": meets("one", "two"), "alone": Slice(alone), "two": meets("two", "one")},
    (Claim("one", "-"),),
)
