"""Memory use of training: prediction for a batch size, and analysis of out-of-memory errors."""
