"""Frozen dataclasses that everything else exchanges; save and load."""
