"""Runs the tests of real time over and over, while a busy loop takes a core.

    python -m benchmarks.realtime_rounds 20    # rounds; also: make realtime-rounds

Ends with the first round in which a test fails, and its exit code.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main(rounds: int) -> int:
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        for number in range(1, rounds + 1):
            began_s = time.monotonic()
            command = [sys.executable, "-m", "pytest", "-q", "tests/realtime"]
            done = subprocess.run(command, cwd=ROOT, check=False)
            spent_s = time.monotonic() - began_s
            print(f"round {number} of {rounds}: {spent_s:.0f} s, exit code {done.returncode}")
            if done.returncode:
                return done.returncode
    finally:
        busy.kill()
        busy.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
