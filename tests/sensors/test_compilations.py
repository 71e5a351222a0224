"""Counts what XLA compiled, and says so if TensorFlow's counters are not where they should be."""

import pytest
import tensorflow as tf
from packaging.version import Version

from keras_gpukit.sensors import compilations as module
from keras_gpukit.sensors.compilations import compilations

pytestmark = pytest.mark.skipif(
    Version(tf.__version__).release[:2] != (2, 21), reason="read in the layout of TensorFlow 2.21"
)


def test_each_shape_is_one_compilation():
    @tf.function(jit_compile=True, reduce_retracing=True)
    def twice(x):
        return 2 * x

    before = compilations()
    for length in (3, 4, 4, 5):
        twice(tf.zeros(length))
    after = compilations()
    assert after.programs - before.programs == 3
    assert after.spent_s > before.spent_s


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("_REGISTRY", "no_such_symbol"),
        ("_ROOT_IN_REGISTRY", 0),
        ("_ROOT_BEFORE_DEFINITION", -8),
        ("_VALUE_IN_NODE", 16),
    ],
)
def test_counters_of_another_layout_are_unknown(monkeypatch, name, other):
    monkeypatch.setattr(module, name, other)
    module._definitions.cache_clear()
    assert compilations() is None
    monkeypatch.undo()
    module._definitions.cache_clear()
    assert compilations() is not None
