"""Reads the exception that ends a script and, if memory ran out, what the script keeps there."""

from __future__ import annotations

import contextlib
import linecache
import re
import sys
import traceback
from dataclasses import replace
from types import FrameType

from keras_gpukit.input.pipelines.places import place
from keras_gpukit.monitoring.call_errors import kind_and_message, user_line
from keras_gpukit.monitoring.script_globals import is_of_the_script
from keras_gpukit.records.script import ScriptError


def read_error(error: Exception) -> ScriptError:
    """Returns what is known of an exception, while the frames that it passed still exist."""
    record = ScriptError(*kind_and_message(error), user_line(error))
    if "tensorflow" in sys.modules:
        with contextlib.suppress(Exception):  # as if its import has failed
            return _with_memory(record, error)
    return record


def _with_memory(record: ScriptError, error: Exception) -> ScriptError:
    from keras_gpukit.memory.oom_message import read_message
    from keras_gpukit.memory.out_of_memory import is_out_of_memory
    from keras_gpukit.monitoring.kept_tensors import KeptTensors

    said = read_message(str(getattr(error, "message", error)))
    if said is None or not is_out_of_memory(error):
        return record
    passed = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    own = [each for each in passed if is_of_the_script(each.f_code.co_filename)]
    functions = [_Variables(each) for each in own if each.f_code.co_name != "<module>"]
    device = said.device or "GPU:0"
    kept = (each for each in KeptTensors().read(functions) if each.where == device)
    largest = max(kept, key=lambda each: each.size_bytes, default=None)
    record = replace(record, device=device, asked_bytes=said.asked_bytes)
    if largest is None or largest.size_bytes < (said.asked_bytes or 0):
        return record
    largest = replace(largest, name=largest.name.removeprefix(f"{_Variables.__name__}."))
    files = dict.fromkeys(each.f_code.co_filename for each in own)
    return replace(record, kept=largest, kept_line=_line_that_adds(largest.name, files))


class _Variables:
    """A function's variables, as attributes."""

    def __init__(self, frame: FrameType) -> None:
        vars(self).update(frame.f_locals)


def _line_that_adds(name: str, files: dict[str, None]) -> str | None:
    variable = re.escape(name.rpartition(".")[2])
    adds = re.compile(rf"\b{variable}(\.(append|add|extend|update)\(|\[.+\] = | \+= )")
    for file in files:
        for number, text in enumerate(linecache.getlines(file), 1):
            if adds.search(text):
                return place(file, number)
    return None
