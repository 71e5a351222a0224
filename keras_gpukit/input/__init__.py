"""The input of a run: what its pipeline is made of, and how long steps wait for it."""
