"""Frozen dataclasses that all other modules exchange, and functions that save and load them."""
