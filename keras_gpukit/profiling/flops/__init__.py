"""FLOPs: the floating-point operations of a training step, counted from its graph."""
