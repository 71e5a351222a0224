"""Handing a batch script or a manifest to the cluster that it is for."""

from __future__ import annotations

import shutil
import subprocess

SBATCH = ("sbatch",)
KUBECTL = ("kubectl", "apply", "-f", "-")


def submit(text: str, command: tuple[str, ...]) -> int:
    """Runs the cluster's own program, which reads the text from its standard input.

    Args:
        text: The script or the manifest.
        command: `SBATCH` or `KUBECTL`.

    Returns:
        The program's exit code.

    Raises:
        FileNotFoundError: If this machine does not have it.
    """
    program = shutil.which(command[0])
    if program is None:
        raise FileNotFoundError(
            f"--submit needs {command[0]}, which this machine does not have. Run this on one of "
            "the cluster, or leave --submit out and pass what is printed to "
            f"{' '.join(command)} there."
        )
    return subprocess.run([program, *command[1:]], input=text, text=True, check=False).returncode
