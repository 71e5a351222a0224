"""Rules on the run as a whole: its end, learning, slowdowns, time outside steps, memory."""
