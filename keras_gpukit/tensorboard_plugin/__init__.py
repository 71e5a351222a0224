"""The TensorBoard tab "GPU Kit": an up-to-date report of every run under the log directory."""
