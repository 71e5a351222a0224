"""Short trainings that find something out, and give the model back as it was."""
