"""Scripted stacks of Python, and a sampler that looks at them."""

import os
from types import SimpleNamespace

from keras_gpukit.sensors.stack_parts import CodeWatch
from keras_gpukit.sensors.stacks import StackSampler

MAIN_THREAD = 1
OF_A_POOL = ("lib/multiprocessing/pool.py", "worker", 125)


class Script:
    """A script whose stacks are given as (file, function, line), the outermost first.

    Files in "lib/" are not the script's own.
    """

    def __init__(self):
        self._now_s, self._used_s, self._stacks, self._codes = 0.0, {}, {}, {}
        self.sampler = StackSampler(
            lambda file: not file.startswith(("lib/", "<")),
            lambda file, line: f"{os.path.basename(file)}:{line}",
            now=lambda: self._now_s,
            stacks=lambda: self._stacks,
            thread_s=self._used_s.get,
        )
        self.times = self.sampler.times

    def poll(self, seconds, *stack, used_s=None):
        """Looks at the main thread after some seconds."""
        self._used_s[MAIN_THREAD] = used_s
        self.look_at(seconds, {MAIN_THREAD: stack})

    def look_at(self, seconds, stacks, used_s=None):
        """Looks at several threads after some seconds."""
        self._used_s.update(used_s or {})
        self._now_s += seconds
        self._stacks = {thread: self._frames(stack) for thread, stack in stacks.items()}
        self.sampler.poll()

    def watch(self, *functions, **options):
        codes = [self.code(*each) for each in functions]
        return self.sampler.watch(CodeWatch(codes, **options))

    def code(self, file, function):
        new = SimpleNamespace(
            co_filename=file,
            co_qualname=function,
            co_name=function.rpartition(".")[2],
            co_firstlineno=1,
        )
        return self._codes.setdefault((file, function), new)

    def _frames(self, stack):
        return [
            SimpleNamespace(f_code=self.code(file, function), f_lineno=line)
            for file, function, line in reversed(stack)
        ]
