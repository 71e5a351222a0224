"""Measures once, starts a process, and hangs."""

import subprocess
import time

from benchmarks.gpu.part import Claim, Outcome, Part, Slice


def cases(small, folder):
    yield "process", lambda: subprocess.Popen(["sleep", "1000"]).pid
    yield "hangs", lambda: time.sleep(1000)
    yield "never", lambda: 1


CLAIM = Claim("process", "-", lambda pid: Outcome(True, f"{pid} started."), ("process",))
PART = Part("hanging", "Is it killed?", {"all": Slice(cases)}, (CLAIM,))
