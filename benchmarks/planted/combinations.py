"""Combinations of a pipeline, a way of running and a stall, by name.

A name is pipeline/mode/steps per execution/devices/stall aimed at in percent.
"""

from __future__ import annotations

import fnmatch

# Not all with all: each kind of pipeline limits some way of running, and each
# way of running by some kinds of pipeline. Under several devices XLA cannot compile a mirrored
# step on a CPU.
COMBINATIONS = """
serial/graph/spe1/one 0 25 50 75 95
serial/jit/spe1/one 0 25 50 75
serial/eager/spe1/one 0 25 50 75
prefetched/graph/spe1/one 0 50 90
bursty/graph/spe1/one 25 50
cached/graph/spe1/one 0 50
cached/jit/spe1/one 0
parallel/graph/spe1/one 0 50 75
parallel/eager/spe1/one 50
autotuned/graph/spe1/one 50
interleaved/graph/spe1/one 0 25 75
interleaved/eager/spe1/one 50
no-autotune/graph/spe1/one 0 50 90
no-autotune/jit/spe1/one 50
no-autotune-shuffled/graph/spe1/one 50
arrays/graph/spe1/one 0
arrays/jit/spe1/one 0
arrays/eager/spe1/one 0
pydataset/graph/spe1/one 0 50 75
pydataset/jit/spe1/one 50
pydataset-threads/graph/spe1/one 0 50 75
pydataset-threads/eager/spe1/one 50
pydataset-processes/graph/spe1/one 0 50
generator/graph/spe1/one 0 50 75
generator/eager/spe1/one 25
serial/graph/spe1/two 0 50 75
serial/eager/spe1/two 50
interleaved/graph/spe1/two 50
no-autotune/graph/spe1/two 50
arrays/graph/spe1/two 0
pydataset/graph/spe1/two 50
generator/graph/spe1/two 50
serial/graph/spe8/one 0 25 50 75 90
serial/jit/spe8/one 0 50 75
serial/eager/spe8/one 0 50
prefetched/graph/spe8/one 50
bursty/graph/spe8/one 50
cached/graph/spe8/one 0
parallel/graph/spe8/one 50
interleaved/graph/spe8/one 25 75
no-autotune/graph/spe8/one 50
arrays/graph/spe8/one 0
pydataset/graph/spe8/one 50
pydataset-threads/graph/spe8/one 50
generator/graph/spe8/one 0 50
serial/graph/spe8/two 0 50 75
interleaved/graph/spe8/two 50
serial/short/spe5/one 0 25 50 63 75
prefetched/short/spe5/one 63
parallel/short/spe5/one 63
bursty/short/spe5/one 63
"""


def chosen(pattern: str) -> list[str]:
    """Returns the names that match a shell pattern."""
    names = []
    for line in COMBINATIONS.split("\n"):
        group, *percents = line.split() or [""]
        names += [f"{group}/{percent}" for percent in percents]
    return [name for name in names if fnmatch.fnmatch(name, pattern)]
