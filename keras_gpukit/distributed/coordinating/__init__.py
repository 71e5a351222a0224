"""Asynchronous training: a coordinator hands batches to workers, parameter servers hold weights."""
