"""Short trials that leave the model unchanged, and the processes that some of them run in."""
