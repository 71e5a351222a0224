"""Reads how often and how long XLA compiled programs in this process.

TensorFlow counts this in C++, where Python can increase counters but not read those of others. The
counters are therefore looked up in this process's memory: `CollectionRegistry` holds a `std::map`
from their names to objects of class `Counter`, which hold a `std::map` of their values. Memory is
read as a file, so that a wrong address raises an error instead of ending the process. A counter of
our own is looked up first: unless it has the value that was just set, all counters are unknown.

Layout of these classes: headers of TensorFlow 2.21 on 64-bit Linux, in
`include/xla/tsl/lib/monitoring`. On GPUs, the counters should work alike; this is untested there.
"""

from __future__ import annotations

import ctypes
import functools
import os
import struct
from pathlib import Path
from typing import NamedTuple

from keras_gpukit.errors import logger
from keras_gpukit.frameworks import tf_runtime

_COUNTERS = ("/tensorflow/core/xla_compilations", "/tensorflow/core/xla_compilation_time_usecs")
_OWN, _OWN_VALUE = "/keras_gpukit/own_counter", 20_260_704
_REGISTRY = "_ZN3tsl10monitoring18CollectionRegistry7DefaultEv"
# Offsets in bytes. A node of a map starts with four words: color, parent, left and right.
_ROOT_IN_REGISTRY, _ROOT_BEFORE_DEFINITION = 32, 32
_VALUE_IN_NODE = 40
_WORD = 8
_LONGEST_NAME, _DEEPEST = 512, 64


class Compilations(NamedTuple):
    """Number of programs that XLA compiled in this process so far, and their total time."""

    programs: int
    spent_s: float


def compilations() -> Compilations | None:
    """Returns what XLA compiled so far; None if unknown. Takes about 10 µs."""
    definitions = _definitions()
    if definitions is None:
        return None
    try:
        with _Memory() as memory:
            count, spent_us = (memory.value(definition) for definition in definitions)
    except (OSError, OverflowError, struct.error):
        return None
    return Compilations(count, spent_us / 1e6)


@functools.cache
def _definitions() -> tuple[int, ...] | None:
    """Returns the addresses of the counters' definitions; None if they cannot be read."""
    try:
        import tensorflow as tf

        own = tf_runtime.counter(_OWN, _OWN_VALUE)
        library = ctypes.CDLL(str(Path(tf.sysconfig.get_lib()) / "libtensorflow_framework.so.2"))
        find_registry = getattr(library, _REGISTRY)
        find_registry.restype = ctypes.c_uint64
        registry = find_registry()
        with _Memory() as memory:
            found = [memory.definition(registry, name) for name in (_OWN, *_COUNTERS)]
            return tuple(found[1:]) if own and memory.value(found[0]) == _OWN_VALUE else None
    except Exception as error:
        logger.debug("XLA's compilations cannot be counted: %r", error)
        return None


class _Memory:
    """This process's memory, as a file."""

    def __enter__(self) -> _Memory:
        self._file = os.open("/proc/self/mem", os.O_RDONLY)
        return self

    def __exit__(self, *exception: object) -> None:
        os.close(self._file)

    def definition(self, registry: int, name: str) -> int:
        """Returns the address of a counter's definition, from the registry's sorted tree."""
        node, wanted = self._words(registry + _ROOT_IN_REGISTRY, 1)[0], name.encode()
        for _ in range(_DEEPEST):
            _, _, left, right, length, text, definition = self._words(node, 7)
            found = os.pread(self._file, min(length, _LONGEST_NAME), text)
            if found == wanted:
                return definition
            node = left if wanted < found else right
        raise KeyError(name)

    def value(self, definition: int) -> int:
        """Returns the value of a counter without labels; 0 if it was never increased."""
        (root,) = self._words(definition - _ROOT_BEFORE_DEFINITION, 1)
        return self._words(root + _VALUE_IN_NODE, 1)[0] if root else 0

    def _words(self, address: int, count: int) -> tuple[int, ...]:
        return struct.unpack(f"={count}Q", os.pread(self._file, count * _WORD, address))
