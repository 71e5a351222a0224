"""Measures once, starts a process, and hangs."""

import subprocess
import time

from benchmarks.gpu.part import Claim, Outcome, Part


def measure(small, folder):
    yield "process", subprocess.Popen(["sleep", "1000"]).pid
    time.sleep(1000)


def judge(measured):
    return {"process": Outcome("process" in measured, "A process started.")}


PART = Part("hanging", "Is it killed?", 1.0, (Claim("process", "-", "-"),), measure, judge)
