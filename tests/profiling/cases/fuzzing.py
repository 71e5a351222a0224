"""Reads damaged profiles, in a process that may take no more than 1 GB.

    python fuzzing.py FOLDER    # with whole profiles in it

Each is cut off, and has bits flipped, in hundreds of ways that are the same each time. Then come
files that are made to take much memory, or time. It prints how often which outcome came.
"""

from __future__ import annotations

import json
import random
import re
import resource
import sys
import time
from collections import Counter
from itertools import chain
from pathlib import Path

MEMORY_BYTES = 1 << 30
resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))

from keras_gpukit.errors import ProfileError  # noqa: E402
from keras_gpukit.profiling import read_profile  # noqa: E402
from keras_gpukit.records.codec import from_dict, to_dict  # noqa: E402
from keras_gpukit.records.profile import ProfileRecord  # noqa: E402

CUTS, FLIPS = 75, 100


def outcome(path: Path) -> str:
    try:
        record = read_profile(path)
    except ProfileError as error:
        return "error" if str(path) in str(error) else "error that names no file"
    assert from_dict(json.loads(json.dumps(to_dict(record), allow_nan=False)), ProfileRecord)
    if record.steps:
        assert abs(sum(record.parts_s.values()) - record.step_time_s) < 1e-3 * record.step_time_s
        assert record.stall_fraction is None or 0 <= record.stall_fraction <= 1
    return "incomplete" if record.incomplete_because else "read"


def damaged(whole: bytes, chance: random.Random):
    for _ in range(CUTS):
        yield whole[: chance.randrange(len(whole))]
    for _ in range(FLIPS):
        content = bytearray(whole)
        for _ in range(chance.choice((1, 3, 30))):
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        yield bytes(content)


def varint(value: int) -> bytes:
    size = b""
    while value > 0x7F:
        size += bytes([value & 0x7F | 0x80])
        value >>= 7
    return size + bytes([value])


def field(number: int, content: bytes | int) -> bytes:
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def named(number: int, key: int, name: bytes, rest: bytes = b"") -> bytes:
    """A kind of event (4) or of figure (5)."""
    return field(number, field(1, key) + field(2, field(2, name) + rest))


def figure(key: int, value: int) -> bytes:
    return field(4, field(1, key) + field(4, value))


def events(kind: int, count: int, figures=lambda index: b"") -> bytes:
    """A line with an event each microsecond."""
    begins = ((index, field(1, kind) + field(2, 10**6 * index)) for index in range(count))
    return field(3, b"".join(field(4, at + field(3, 900_000) + figures(i)) for i, at in begins))


def bombs():
    """Small on disk, large once read: millions of empty messages, each a few bytes long."""
    name, many = field(2, b"/host:CPU"), 4_000_000
    yield field(1, name) + field(1, b"") * many  # planes
    yield field(1, name + field(3, field(4, b"") * many))  # events
    yield field(1, name + field(4, b"") * many)  # names
    yield field(1, name + field(6, b"") * many)  # figures of a plane
    yield field(1, name + field(4, field(2, field(5, b"") * many)))  # figures of a name
    yield field(1, name + field(3, field(4, field(4, b"") * many)))  # figures of an event
    yield field(1, name) + field(2, b"") * many  # errors
    # Figures of many names, of none too many.
    yield field(
        1, name + b"".join(named(4, key, b"x", field(5, b"") * 500_000) for key in range(60))
    )


def slow_ones():
    """Small, but a reader that goes through all for each of all does not come to its end."""
    marks = events(1, 30_000, lambda index: figure(1, index) + figure(2, 1))
    marks += named(4, 1, b"train") + named(5, 1, b"step_num") + named(5, 2, b"_r")
    waits = events(2, 30_000) + named(4, 2, b"IteratorGetNext")
    stages = events(3, 30_000, lambda index: figure(3, index))
    stages += named(4, 3, b"Iterator::Root::Map") + named(5, 3, b"id")
    yield field(1, field(2, b"/host:CPU") + marks + waits + stages)
    common = b"".join(field(5, field(1, key) + field(4, 1)) for key in range(80_000))
    kernels = events(1, 50_000, lambda index: figure(1, index)) + named(4, 1, b"kernel", common)
    names = b"".join(named(5, key, b"figure %d" % key) for key in range(80_000))
    yield field(1, field(2, b"/device:GPU:0") + kernels + names)


def main() -> None:
    folder = Path(sys.argv[1])
    path, outcomes, slowest_s = folder / "damaged.xplane.pb", Counter(), 0.0
    for whole in sorted(folder.glob("whole*.xplane.pb")):
        assert outcome(whole) == "read"
        for content in damaged(whole.read_bytes(), random.Random(whole.name)):
            path.write_bytes(content)
            outcomes[outcome(path)] += 1
    for content in chain(bombs(), slow_ones()):
        path.write_bytes(content)
        began_s = time.monotonic()
        outcomes["bomb " + outcome(path)] += 1
        slowest_s = max(slowest_s, time.monotonic() - began_s)
    print(json.dumps({**outcomes, "peak_bytes": peak_bytes(), "slowest_bomb_s": slowest_s}))


def peak_bytes():
    # `ru_maxrss` would count what the process was that started this one.
    [peak] = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return 1024 * int(peak)


if __name__ == "__main__":
    main()
