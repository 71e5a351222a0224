"""What the processes of a job print, as one output."""
