"""Rules on the steps' own work: where it runs, in which precision, and what delays it."""
