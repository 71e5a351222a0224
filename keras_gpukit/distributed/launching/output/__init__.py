"""Merges the output of a job's processes into one."""
