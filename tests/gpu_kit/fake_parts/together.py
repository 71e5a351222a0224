"""Two slices that only end if they run at the same time, and one that must be alone."""

import os
import time
from pathlib import Path

from benchmarks.gpu.part import Part

PART = Part("together", "Do they meet?")


@PART.slice("one", 60, case="one", alone=False)
def one(small):
    return meet("one", "two")


@PART.slice("two", 60, case="two", alone=False)
def two(small):
    return meet("two", "one")


@PART.slice("alone", 60, case="alone")
def alone(small):
    return seen(Path(os.environ["MEETING"]))


def meet(own, other):
    folder = Path(os.environ["MEETING"])
    (folder / own).touch()
    while not (folder / other).exists():
        time.sleep(0.01)
    return seen(folder)


def seen(folder):
    return sorted(each.name for each in folder.iterdir())
