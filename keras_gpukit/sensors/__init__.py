"""Sensors that read the machine through NVML, psutil and TensorFlow's allocators.

What reads NVIDIA's GPUs is tested with NVIDIA's binding over a stand-in for the library. Of it,
only `NVMLSensor` is known to have run on GPUs: on H100s, with driver 580. What it read there was
not held against another tool.
"""
