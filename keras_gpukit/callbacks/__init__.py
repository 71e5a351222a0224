"""Keras callbacks, one per file: thin adapters to the packages that measure."""
