"""Crashes in one of three cases, as native code does; hangs nowhere."""

import os
import signal

from benchmarks.gpu.part import Part

PART = Part("crashing", "Does it crash?")


@PART.slice("all", 60)
def cases(small):
    yield "before", os.getpid
    yield "crash", crash
    yield "after", os.getpid


def crash():
    print("about to crash", flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)
