"""Training scripts that one known change makes faster, or that none does.

Each trains as beginners write it, and with the argument "--by-hand" with that change.
"""
