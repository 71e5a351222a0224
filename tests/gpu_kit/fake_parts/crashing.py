"""Measures once, then crashes as native code does."""

import os
import signal

from benchmarks.gpu.part import Claim, Part


def measure(small, folder):
    yield "figure", 1
    print("about to crash", flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)


PART = Part("crashing", "Does it crash?", 1.0, (Claim("one", "-", "-"),), measure, lambda _: {})
