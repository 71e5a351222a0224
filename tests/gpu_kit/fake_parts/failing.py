"""Measures once, then fails; so does its judge."""

from benchmarks.gpu.part import Claim, Part


def measure(small, folder):
    yield "figure", 1
    raise ValueError("the measurement failed")


def judge(measured):
    raise KeyError("the judge failed")


PART = Part("failing", "Does it fail?", 1.0, (Claim("one", "-", "-"),), measure, judge)
