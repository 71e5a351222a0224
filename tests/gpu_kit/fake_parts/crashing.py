"""Crashes in one of three cases, as native code does; hangs nowhere."""

import os
import signal

from benchmarks.gpu.part import Claim, Part, Slice


def crash():
    print("about to crash", flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)


def cases(small, folder):
    yield "before", os.getpid
    yield "crash", crash
    yield "after", os.getpid


PART = Part("crashing", "Does it crash?", {"all": Slice(cases)}, (Claim("one", "-"),))
