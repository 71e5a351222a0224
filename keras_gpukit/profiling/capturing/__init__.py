"""Captures a profile of a few training steps: when, and how."""
