"""Records in, findings out: one small class each."""
