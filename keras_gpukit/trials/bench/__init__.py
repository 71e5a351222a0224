"""`keras-gpukit bench`: what this machine does in a minute, measured in a process per device."""
