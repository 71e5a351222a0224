"""Reading an `.xplane.pb`: from its bytes to a record."""
