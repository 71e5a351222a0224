"""Measures how long steps wait for their batches."""
