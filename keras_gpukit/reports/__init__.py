"""Views of a record for people and programs."""
