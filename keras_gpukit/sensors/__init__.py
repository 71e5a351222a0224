"""What the machine says: NVML, psutil and TensorFlow's allocator."""
