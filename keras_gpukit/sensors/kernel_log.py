"""GPU errors (Xids) from the kernel's log, if this process may read it."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator

from keras_gpukit.records.gpu_health import Xid

LOG = "/dev/kmsg"
# "NVRM: Xid (PCI:0000:65:00): 79, pid=4242, name=python, GPU has fallen off the bus."
# https://docs.nvidia.com/deploy/xid-errors/working-with-xid-errors.html
_XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F]+:[0-9a-fA-F]+:[0-9a-fA-F]+)\): (\d+), (.*)")
_LONGEST_LINE = 8192


def read_xids(path: str = LOG) -> tuple[Xid, ...] | None:
    """Returns the errors of NVIDIA's GPUs since the machine started; None if not readable.

    NVML itself reports these errors only while a program waits for them. On most machines only the
    administrator can read the log, and containers have no log.
    """
    try:
        return xids_in(_lines(path))
    except OSError:
        return None


def xids_in(lines: Iterable[str]) -> tuple[Xid, ...]:
    """Returns the GPU errors in lines of a log."""
    found = (_XID.search(line) for line in lines)
    return tuple(Xid(int(each[2]), each[1], each[3].strip()) for each in found if each)


def _lines(path: str) -> Iterator[str]:
    log = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    try:
        while True:
            try:
                text = os.read(log, _LONGEST_LINE)
            except BlockingIOError:  # the end of the log so far
                return
            except OSError as error:
                if error.errno == errno.EPIPE:  # entry overwritten: continue with the oldest one
                    continue
                raise
            if not text:
                return
            yield from text.decode(errors="replace").splitlines()
    finally:
        os.close(log)
