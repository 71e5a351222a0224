"""What is kept of a script: profiles, by a scripted clock, and the exception that ends it."""

import pytest

from keras_gpukit.records import ScriptProfile
from keras_gpukit.scripts.main_module import read_error
from keras_gpukit.scripts.watched_fits import ScriptProfiles


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
    assert script.profiles.profile_records() == (ScriptProfile("train.py:2", 15.0, 1, 9.0),)
    # One within a fit covers none, and may still be recorded.
    script = Script()
    script.fits = (2, 1)
    code("start('logs')", start=script.start)
    script.now_s, script.fits = 101.0, (3, 0)
    assert script.profiles.profile_records() == (ScriptProfile("train.py:1", 1.0, 0, None),)


def test_the_error_of_a_second_start_passes_without_our_frames():
    def refuse(folder):
        raise RuntimeError("Another profiler is running.")

    script = Script()
    with pytest.raises(RuntimeError) as raised:
        code("start('logs')", start=script.profiles.timed_start(refuse))
    frames = [entry.name for entry in raised.traceback]
    assert frames[-2:] == ["<module>", "refuse"]
    assert script.profiles.profile_records() == ()


def test_the_collection_that_takes_the_devices_memory_is_named_with_its_line():
    tf = pytest.importorskip("tensorflow")

    def train():
        kept = []
        with tf.device("CPU:0"):
            for number in range(3):
                value = tf.fill([2**18], float(number))
                kept.append(value)
        message = "OOM when allocating tensor with shape[1000] and type float on /device:CPU:0"
        raise tf.errors.ResourceExhaustedError(None, None, message)

    with pytest.raises(tf.errors.ResourceExhaustedError) as raised:
        train()
    found = read_error(raised.value)
    assert (found.device, found.asked_bytes, found.kept.name) == ("CPU:0", 4000, "kept")
    assert (found.kept.length, found.kept.size_bytes) == (3, 3 * 2**20)
    line = train.__code__.co_firstlineno + 5
    assert found.kept_line == f"tests/scripts/test_script_profiles.py:{line}"
