"""Converts one profile with xprof, and prints its tools' answers. Runs in a separate process.

    python -m keras_gpukit.profiling.xprof_process PROFILE TOOL...

xprof's converters are native code that may crash on a damaged file. They log to the standard error
stream.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress

MOST_BYTES = 8 << 30
"""Limit of the address space. It leaves room for a profile of 256 MiB and for threads' stacks."""


def main() -> None:
    """Prints a JSON object with each tool's answer, or null for a tool without one."""
    _limit_memory()
    from xprof.convert import raw_to_tool_data

    path, *tools = sys.argv[1:]
    answers = {}
    for tool in tools:
        # A result saved in the profile's folder may belong to another profile.
        text, _ = raw_to_tool_data.xspace_to_tool_data([path], tool, {"use_saved_result": False})
        answers[tool] = None if text is None else json.loads(text)
    json.dump(answers, sys.stdout)


def _limit_memory() -> None:
    with suppress(ImportError, ValueError, OSError):  # Windows has no such limits
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))


if __name__ == "__main__":
    main()
