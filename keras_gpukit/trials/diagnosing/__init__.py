"""The parts of `diagnose`: measurements in turns, and conclusions from the rounds."""
