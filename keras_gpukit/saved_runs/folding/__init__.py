"""A run's records in, its summary and TensorBoard's figures out; reads no machine and no clock."""
