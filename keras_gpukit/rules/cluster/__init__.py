"""Rules on several workers and replicas."""
