"""The parts of `tune_input`: reading a pipeline, changing it, and trying changes."""
