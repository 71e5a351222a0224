"""Rules on the memory of GPUs and host: what is left, what grows, and what would fit."""
