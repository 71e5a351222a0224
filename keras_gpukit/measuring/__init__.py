"""Rates, rounds, intervals and untouched models: what every experiment measures with."""
