"""Reads runs back from their log folders, while they are in progress or afterwards."""
