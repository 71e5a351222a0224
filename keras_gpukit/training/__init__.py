"""What changes training: learning-rate scaling, gradient accumulation, rematerialization."""
