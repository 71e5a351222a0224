"""Sensors that read the machine through NVML, psutil and TensorFlow's allocators."""
