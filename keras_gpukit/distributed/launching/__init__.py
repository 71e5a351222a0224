"""Starts one script as several processes that train together."""
