"""Where each operation ran, and why."""
