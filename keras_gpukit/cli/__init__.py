"""The `keras-gpukit` command, with one file per subcommand."""
