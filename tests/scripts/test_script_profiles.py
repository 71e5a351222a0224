"""Profiles of the script itself, timed by functions like TensorFlow's and a scripted clock."""

from __future__ import annotations

import pytest

from keras_gpukit.records import ScriptProfile
from keras_gpukit.scripts.script_profiles import ScriptProfiles


class Script:
    """A script's process: its clock, its fits, and a profiler whose stop takes nine seconds."""

    def __init__(self):
        self.now_s, self.fits = 100.0, (2, 0)
        self.profiles = ScriptProfiles(lambda: self.fits, lambda: self.now_s)
        self.start = self.profiles.timed_start(lambda folder: folder)
        self.stop = self.profiles.timed_stop(self._stop)

    def _stop(self):
        self.now_s += 9.0


def code(text, **names):
    """Runs code as a file of the script."""
    exec(compile(text, "/home/me/train.py", "exec"), names)


def test_a_profile_around_a_fit_is_timed_with_its_line():
    script = Script()
    code("\nstart('logs')", start=script.start)
    script.now_s, script.fits = 115.0, (3, 0)
    code("stop()", stop=script.stop)
    assert script.profiles.record() == (ScriptProfile("train.py:2", 15.0, 1, 9.0),)


def test_a_profile_within_a_fit_covers_none_and_may_still_be_recorded():
    script = Script()
    script.fits = (2, 1)
    code("start('logs')", start=script.start)
    script.now_s, script.fits = 101.0, (3, 0)
    assert script.profiles.record() == (ScriptProfile("train.py:1", 1.0, 0, None),)


def test_the_error_of_a_second_start_passes_without_our_frames():
    def refuse(folder):
        raise RuntimeError("Another profiler is running.")

    script = Script()
    with pytest.raises(RuntimeError) as raised:
        code("start('logs')", start=script.profiles.timed_start(refuse))
    frames = [entry.name for entry in raised.traceback]
    assert frames[-2:] == ["<module>", "refuse"]
    assert script.profiles.record() == ()
