"""What the parts take for the truth, on made-up profiles and models whose work is known."""

from __future__ import annotations

import time

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.synthetic_xplane import (
    Capture,
    gpu_behind_the_host,
    one_after_the_other,
)

from benchmarks.gpu.kernel_gaps import Gaps, gaps_of, idle_between_kernels, read_gpu_spans
from benchmarks.gpu.models import cases, convolutional, dense, least_work, transformer
from benchmarks.planted.known_times import arrays, ready, sleep_in_python
from benchmarks.xplane_truth import FETCH, MARK, STEP, read_host_events, stall_of


def gaps(capture: Capture, folder) -> Gaps:
    """Marks the executions, of 10 ms each, as the parts do."""
    for number in range(8):
        capture.host.event("python", MARK, 10 * number, 9)
    path = capture.save(folder)
    return gaps_of(read_host_events(path), read_gpu_spans(path))


def test_a_gpu_idles_while_neither_kernels_nor_copies_run(tmp_path):
    found = gaps(one_after_the_other(), tmp_path)

    # Copied for 0.5 ms and 0.1 ms, computed for 4 ms; waited for a batch for 4 ms.
    assert found.execution_s == pytest.approx(10e-3)
    assert found.idle_s == pytest.approx((10 - 4.6) * 1e-3)
    assert found.idle_while_fetching == pytest.approx(0.4)


def test_work_that_was_launched_before_hides_a_wait(tmp_path):
    found = gaps(gpu_behind_the_host(), tmp_path)

    assert found.idle_s == pytest.approx(2e-3)
    assert found.idle_while_fetching == pytest.approx(0.1)


def test_without_a_gpu_idle_time_is_unknown(tmp_path):
    assert gaps(Capture(), tmp_path) == Gaps(pytest.approx(10e-3), None, None)
    assert idle_between_kernels(Capture().save(tmp_path)) is None


def test_idle_time_between_kernels_is_a_share_of_the_time(tmp_path):
    capture = Capture()
    gpu = capture.gpu()
    for begin in (0, 3, 9):
        gpu.event("Stream #14(Kernel)", "sin", begin, 1)

    assert idle_between_kernels(capture.save(tmp_path)) == pytest.approx(0.7)


def test_a_steps_least_work_counts_products_activations_and_weights():
    # 5 to 7 to 10 features: 7 * 5 + 10 * 7 products, 17 results, 42 + 80 weights.
    assert least_work(dense(7, 1, 5), 2) == (3 * 2 * 2 * 105, 2 * 2 * 17, 6 * 122)

    # 4 channels of 6 × 6 pixels from 3 and from 4, with kernels of 3 × 3, then 10 classes.
    products = 36 * 4 * 9 * 3 + 36 * 4 * 9 * 4 + 10 * 4
    assert least_work(convolutional(4, 1, 6), 1)[:2] == (3 * 2 * products, 2 * (288 + 10))

    # 3 positions of 8 features: embedded from 2, four projections, scores and their use, 4 times
    # as wide and back, then 10 classes.
    products = 3 * 8 * 2 + 4 * 3 * 8 * 8 + 2 * 3 * 3 * 8 + 2 * 3 * 8 * 32 + 10 * 8
    elements = 24 + 4 * 24 + 96 + 24 + 10
    assert least_work(transformer(8, 1, 3, 2), 1)[:2] == (3 * 2 * products, 2 * elements)


def test_a_model_starts_from_the_same_weights_each_time():
    first = cases(small=True)["dense"].compiled().get_weights()
    keras.utils.set_random_seed(1)
    second = cases(small=True)["dense"].compiled().get_weights()

    assert all((one == other).all() for one, other in zip(first, second, strict=True))


def test_a_pipeline_that_sleeps_in_python_keeps_its_elements():
    began_s = time.perf_counter()
    batches = list(ready(3).apply(sleep_in_python(0.01)))
    [text] = tf.data.Dataset.from_tensors("record").apply(sleep_in_python(0.0))

    assert time.perf_counter() - began_s > 0.03
    assert np.array_equal(np.concatenate([inputs for inputs, _ in batches]), arrays(3)[0])
    assert text.numpy() == b"record"


def test_a_fetch_that_overlaps_steps_is_no_stall_and_unknown_where_no_step_is_found():
    events = {MARK: [(0, 9), (10, 19), (20, 29)], FETCH: [(12, 16)]}

    assert stall_of(events, overlapping=False) == 0.4
    assert stall_of(events, overlapping=True) is None
    assert stall_of(events | {f"{STEP}product": [(14, 18)]}, overlapping=True) == 0.2
