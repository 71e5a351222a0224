"""Rules: small classes that judge a run's records and return findings."""

from __future__ import annotations

from keras_gpukit.rules.verdict import RULES, judge, judge_run

__all__ = ["RULES", "judge", "judge_run"]
