"""The command line of a command that runs a script: its own part, and the script's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def split(
    argv: Sequence[str], value_flags: Mapping[str, frozenset[str]]
) -> tuple[list[str], list[str]]:
    """Splits the command line behind SCRIPT or `-m MODULE`, where its command runs one.

    What follows is the script's, whatever it looks like; argparse would take a "--" out of it.

    Args:
        argv: What comes after `keras-gpukit`.
        value_flags: By command that runs a script, its flags that are followed by a value.

    Returns:
        Our part of it, and the script's.
    """
    flags = value_flags.get(argv[0] if argv else "")
    if flags is None:
        return list(argv), []
    at = 1
    while at < len(argv):
        word = argv[at]
        at += 2 if word == "-m" or word in flags else 1
        if word.startswith("-m") or not word.startswith("-"):
            return list(argv[:at]), list(argv[at:])
    return list(argv), []
