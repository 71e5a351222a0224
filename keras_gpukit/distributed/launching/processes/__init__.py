"""The processes of a job on this machine: their tasks, ports, GPUs, start and end."""
