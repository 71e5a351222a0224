"""What `diagnose` consists of: measurements in turns, and conclusions from the rounds."""
