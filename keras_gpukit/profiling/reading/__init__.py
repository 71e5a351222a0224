"""Reads an `.xplane.pb` file: from its bytes to a record."""
