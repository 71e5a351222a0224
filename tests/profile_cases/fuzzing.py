"""Reads damaged profiles, in a process that may take no more than 1 GB.

    python fuzzing.py FOLDER    # with whole profiles in it

Each is cut off, and has bits flipped, in hundreds of ways that are the same each time. Then come
files that are made to take much memory. It prints how often which outcome came.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import time
from collections import Counter
from pathlib import Path

MEMORY_BYTES = 1 << 30
resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))

from keras_gpukit.errors import ProfileError  # noqa: E402
from keras_gpukit.profiling import read_profile  # noqa: E402
from keras_gpukit.records.codec import from_dict, to_dict  # noqa: E402
from keras_gpukit.records.profile import ProfileRecord  # noqa: E402

CUTS, FLIPS = 150, 200


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


def field(number: int, content: bytes) -> bytes:
    length, size = len(content), b""
    while length > 0x7F:
        size += bytes([length & 0x7F | 0x80])
        length >>= 7
    return bytes([number << 3 | 2]) + size + bytes([length]) + content


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


def main() -> None:
    folder = Path(sys.argv[1])
    path, outcomes, slowest_s = folder / "damaged.xplane.pb", Counter(), 0.0
    for whole in sorted(folder.glob("whole*.xplane.pb")):
        assert outcome(whole) == "read"
        for content in damaged(whole.read_bytes(), random.Random(whole.name)):
            path.write_bytes(content)
            outcomes[outcome(path)] += 1
    for content in bombs():
        path.write_bytes(content)
        began_s = time.monotonic()
        outcomes["bomb " + outcome(path)] += 1
        slowest_s = max(slowest_s, time.monotonic() - began_s)
    peak_bytes = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({**outcomes, "peak_bytes": peak_bytes, "slowest_bomb_s": slowest_s}))


if __name__ == "__main__":
    main()
