"""How `find_batch_size` looks: examples, trials here or in processes of their own, the search."""
