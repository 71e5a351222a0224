"""The parts of the evidence kit; each module has one `PART`."""
