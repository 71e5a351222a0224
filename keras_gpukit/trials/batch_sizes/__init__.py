"""The parts of `find_batch_size`: examples, trials in this or separate processes, the search."""
