"""The tab "GPU Kit" in TensorBoard: the report of every run under the log directory, kept fresh."""
