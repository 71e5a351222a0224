"""Which collections of tensors are seen, of callbacks, the model and the script's own modules."""

import gc
import sys
from collections import deque
from types import ModuleType
from typing import ClassVar

import numpy as np
import pytest
import tensorflow as tf

from keras_gpukit.monitoring import script_globals
from keras_gpukit.monitoring.kept_tensors import MOST_LOOKED_AT, KeptTensors
from keras_gpukit.records import Kept

MIB = 2**20


def array(mib: float = 1.0) -> np.ndarray:
    return np.ones(int(mib * MIB), "uint8")


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module that the script imports, empty."""
    made = ModuleType("project.data")
    made.__file__ = str(tmp_path / "project" / "data.py")
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return made


def seen(owners=()) -> dict[str, tuple[int, int]]:
    """By the label of what is kept, its MiB and its items."""
    found = KeptTensors().read_largest(owners)
    return {each.label: (each.size_bytes // MIB, each.length) for each in found}


def test_a_list_of_a_module_is_named_with_it_its_length_and_its_bytes(module):
    module.losses = [array(2), tf.zeros((MIB // 4,))]
    module.batches = {step: (array(), array()) for step in range(3)}
    assert KeptTensors().read_largest(()) == (
        Kept("batches", "host", 6 * MIB, "project.data", 3),
        Kept("losses", "host", 2 * MIB, "project.data", 2),
        Kept("losses", "CPU:0", MIB, "project.data", 2),
    )


def test_attributes_of_the_scripts_own_classes_and_objects_are_seen(module):
    class Buffer:
        shared: ClassVar = deque([array()])

        def __init__(self):
            self.items = [array(2)]

    Buffer.__module__ = module.__name__
    module.Buffer, module.buffer = Buffer, Buffer()
    found = {"buffer.items of project.data": (2, 1), "Buffer.shared of project.data": (1, 1)}
    assert seen() == found
    # What has two names is kept once.
    assert seen([module.buffer])["Buffer.items"] == (2, 1)
    assert "buffer.items of project.data" not in seen([module.buffer])


def test_what_is_installed_is_no_module_of_the_script_in_whatever_folder(
    module, tmp_path, monkeypatch
):
    module.kept = [array()]
    installed = ModuleType("numpy.more")
    installed.__file__, installed.kept = np.__file__, [array()]
    monkeypatch.setitem(sys.modules, installed.__name__, installed)
    assert seen() == {"kept of project.data": (1, 1)}
    (tmp_path / "site" / "more-1.0.dist-info").mkdir(parents=True)  # as of `pip install --target`
    installed = ModuleType("more")
    installed.__file__, installed.kept = str(tmp_path / "site" / "more.py"), [array()]
    monkeypatch.setitem(sys.modules, installed.__name__, installed)
    script_globals._names_of_own.cache_clear()
    assert len(seen()) == 2  # the folder is not on Python's path
    monkeypatch.syspath_prepend(tmp_path / "site")
    script_globals._names_of_own.cache_clear()  # a script has its path before it imports from it
    assert seen() == {"kept of project.data": (1, 1)}


def test_views_repeats_and_mapped_files_take_nothing_of_their_own(module, tmp_path):
    whole = array(4)
    module.views = [whole[place : place + 100] for place in range(0, 4000, 100)]
    module.repeats = [whole] * 5000
    module.mapped = [np.memmap(tmp_path / "mapped", "uint8", "w+", shape=(4 * MIB,))]
    assert seen() == {"views of project.data": (4, 40), "repeats of project.data": (4, 5000)}


def test_of_a_long_list_a_sample_stands_for_all(module):
    module.kept = [array(1 / 64) for _ in range(3 * MOST_LOOKED_AT)]
    module.numbers = list(range(10**6))
    mib, length = seen()["kept of project.data"]
    assert mib == pytest.approx(3 * MOST_LOOKED_AT / 64, abs=1)
    assert length == 3 * MOST_LOOKED_AT


def test_what_grows_comes_before_what_is_larger(module):
    for number in range(8):
        setattr(module, f"data_{number}", [array(8)])
    module.leak = [array()]
    kept = KeptTensors()
    assert "leak" not in {each.name for each in kept.read_largest(())}
    module.leak.append(array())
    assert kept.read_largest(())[0].name == "leak"


def test_looking_through_thousands_of_modules_triggers_no_garbage_collection(module, monkeypatch):
    module.kept = [array()]
    for number in range(5000):
        monkeypatch.setitem(sys.modules, f"many.m{number}", ModuleType(f"m{number}"))
    KeptTensors().read_largest(())  # compiles and caches what the first one needs
    monkeypatch.setitem(sys.modules, "many.more", ModuleType("more"))  # so that it looks again
    gc.collect()
    before = [each["collections"] for each in gc.get_stats()]
    found = KeptTensors().read_largest(())
    assert [each["collections"] for each in gc.get_stats()] == before
    assert [each.name for each in found] == ["kept"]
