"""Where a run is written: TensorBoard event files and JSON lines."""
