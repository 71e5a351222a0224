"""What holds memory in training, what a batch will need, and why memory ran out."""
