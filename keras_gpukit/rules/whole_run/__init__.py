"""Rules on the run as a whole: how it ended, whether it learned, time outside steps, its memory."""
