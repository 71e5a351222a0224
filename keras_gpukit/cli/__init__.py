"""The keras-gpukit command, one command a file."""
