"""Implements `configure_gpus`: checks the settings, makes a pure plan, and applies it."""
