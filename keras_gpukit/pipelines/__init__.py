"""What an input pipeline is made of: stages, functions, names, places in user code, randomness."""
