"""Placement: the device on which each operation ran, and why."""
