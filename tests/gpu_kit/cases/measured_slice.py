"""Measures a slice in small, as the runner's process does. Arguments: its name, a folder."""

import os
import sys
from pathlib import Path

from benchmarks.gpu.runner import measure

measure(sys.argv[1], Path(sys.argv[2]))
os._exit(0)  # as the runner's process ends
