"""Rules on the machine and its settings: GPUs, driver, libraries, what slows every step."""
