"""The catalogue of planted pipelines: each has a known cause of slowness, or a known time."""
