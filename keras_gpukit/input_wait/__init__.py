"""How waiting for data is measured."""
