"""Rules on the input: whether steps wait for it, why, and what to change."""
