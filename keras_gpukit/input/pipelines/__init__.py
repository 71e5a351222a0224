"""Structure of an input pipeline: stages, functions, names, places in user code, randomness."""
