"""Rules: small classes that judge a run's records and return findings."""

from __future__ import annotations

from keras_gpukit.rules.judging import judge_run
from keras_gpukit.rules.verdict import RULES, judge

__all__ = ["RULES", "judge", "judge_run"]
