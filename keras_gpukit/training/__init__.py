"""What changes training: learning-rate scaling."""
