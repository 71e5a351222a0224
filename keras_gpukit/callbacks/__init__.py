"""One Keras callback a file: thin adapters over the measuring parts."""
