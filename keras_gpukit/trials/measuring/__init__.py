"""Measuring tools of the experiments: rates, rounds, intervals, and restoring the model."""
