"""Rules on the run as a whole: how it ended, whether it learned, and time outside of steps."""
