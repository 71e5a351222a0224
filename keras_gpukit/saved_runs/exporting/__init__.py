"""Writers that log a run's figures and findings to MLflow, Weights & Biases or OpenTelemetry."""
