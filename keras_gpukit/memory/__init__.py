"""Memory use of training: prediction, out-of-memory errors, and training in less memory."""
