"""Writers of a run: TensorBoard event files and JSON lines."""
