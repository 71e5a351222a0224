"""Changes to training: learning-rate scaling, gradient accumulation, rematerialization."""
