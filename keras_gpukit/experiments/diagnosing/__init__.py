"""What `diagnose` is made of: measuring in turns, and judging the rounds."""
