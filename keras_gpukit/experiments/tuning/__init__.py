"""What `tune_input` is made of: reading a pipeline, changing it, and trying changes."""
