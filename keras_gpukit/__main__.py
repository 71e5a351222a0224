"""`python -m keras_gpukit`: the same as the `keras-gpukit` command."""

import sys

from keras_gpukit.cli.main import main

sys.exit(main())
