"""What is kept of the exception that ends a script."""

from __future__ import annotations

import pytest

from keras_gpukit.scripts.script_error import read_error


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
    assert (found.kept.length, found.kept.size_bytes, found.kept_line) == (
        *(3, 3 * 2**20),
        "tests/scripts/test_script_error.py:18",
    )
