"""Frozen dataclasses that all other modules exchange, and functions that save and load them.

None is what is unknown, or does not exist. A field that ends in `_because` says why, in words.
Units end the names: `_s` are seconds, `_bytes` bytes, `_percent` 0 to 100, `_fraction` and `share`
0 to 1. Moments (`time_s`, `began_s`, `ended_s`, `made_s`) are seconds since the Unix epoch. The
`step` is the global step, which a later run of the same model continues. Docstrings describe the
fields whose names do not say it all.
"""
