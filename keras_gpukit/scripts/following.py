"""Monitors the Python processes that a script starts, which inherit two environment variables.

Each process that loads Keras writes its records to a folder of its own in the run's folder. The
script's process reports on all of them.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from keras_gpukit.scripts.conclusion import Conclusion
from keras_gpukit.scripts.custom_loop import OwnLoops
from keras_gpukit.scripts.import_hook import ImportHook
from keras_gpukit.scripts.on_imports import OnImports
from keras_gpukit.scripts.run_folder import FOLLOWED, RunFolder
from keras_gpukit.scripts.termination import Termination
from keras_gpukit.scripts.watched_fits import WatchedFits

_PATH = "PYTHONPATH"
_INHERITED = str(Path(__file__).with_name("inherited"))


def have_followed(
    environment: MutableMapping[str, str],
    folder: Path,
    *,
    profile: bool,
    log_to: Sequence[str],
    gpu_settings: Mapping[str, Any],
) -> None:
    """Sets the environment variables by which processes that are started from now on are monitored.

    Args:
        environment: Environment of this process.
        folder: Folder of the run.
        profile: Whether a few steps of each fit are profiled.
        log_to: Services that each fit is logged to.
        gpu_settings: Arguments of `configure_gpus`.
    """
    options = {"profile": profile, "log_to": list(log_to), "gpu_settings": dict(gpu_settings)}
    environment[FOLLOWED] = json.dumps({"folder": str(folder), **options})
    before = environment.get(_PATH)
    environment[_PATH] = f"{_INHERITED}{os.pathsep}{before}" if before else _INHERITED


def follow() -> ImportHook | None:
    """Starts to monitor this process, as those variables say; returns the hook on its imports."""
    text = os.environ.get(FOLLOWED)
    if text is None:  # this is `keras-gpukit run` itself, which monitors on its own
        return None
    options = json.loads(text)
    gpu_settings = {  # JSON has no tuples
        name: tuple(value) if name == "gpu_threads" and isinstance(value, list) else value
        for name, value in options["gpu_settings"].items()
    }
    folder = RunFolder(
        Path(options["folder"]), Path(sys.argv[0]).stem, shared=Path(options["folder"])
    )

    def finish() -> None:
        from keras_gpukit.monitoring.session import end_all

        end_all("SIGTERM")

    loops = OwnLoops()
    fits = WatchedFits(
        folder,
        profile=options["profile"],
        log_to=options["log_to"],
        before_fit=Termination(finish).install,
    )
    on_imports = OnImports(fits, loops, gpu_settings)
    conclusion = Conclusion(fits, folder, opens=False, loops=loops)
    atexit.register(conclusion.record)
    return on_imports.install()
