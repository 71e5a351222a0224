"""Measures once, starts a process, and hangs."""

import subprocess
import time

from benchmarks.gpu.part import Outcome, Part

PART = Part("hanging", "Is it killed?")


@PART.slice("all", 60)
def cases(small):
    yield "process", lambda: subprocess.Popen(["sleep", "1000"]).pid
    yield "hangs", lambda: time.sleep(1000)
    yield "never", lambda: 1


@PART.claim("-", "process")
def process(pid):
    return Outcome(True, f"{pid} started.")
