"""Records in, findings out: one small class each."""

from __future__ import annotations

from keras_gpukit.rules.verdict import RULES, judge

__all__ = ["RULES", "judge"]
