"""What the parts take for the truth, on made-up profiles and models whose work is known."""

import time

import numpy as np
import pytest
import tensorflow as tf
from helpers.recorded_profiles import write_profile
from helpers.synthetic_xplane import Capture, gpu_behind_the_host, one_after_the_other

from benchmarks.gpu.kernel_gaps import Gaps, gaps_of, idle_between_kernels, read_gpu_spans
from benchmarks.planted.known_times import arrays, ready, sleep_in_python
from benchmarks.xplane_truth import (
    FETCH,
    MARK,
    SEND,
    STEP,
    fetches,
    read_host_events,
    stall_of,
    subtract,
)


def gaps(capture: Capture, folder) -> Gaps:
    """Marks the executions, of 10 ms each, as the parts do."""
    for number in range(8):
        capture.host.event("python", MARK, 10 * number, 9)
    path = capture.save(folder)
    return gaps_of(read_host_events(path), read_gpu_spans(path))


def test_a_gpu_idles_while_neither_kernels_nor_copies_run(tmp_path):
    found = gaps(one_after_the_other(), tmp_path / "one")
    # Copied for 0.5 ms and 0.1 ms, computed for 4 ms; waited for a batch for 4 ms.
    assert found.execution_s == pytest.approx(10e-3)
    assert found.idle_s == pytest.approx((10 - 4.6) * 1e-3)
    assert found.idle_while_fetching == pytest.approx(0.4)
    # Work that was launched before hides a wait.
    found = gaps(gpu_behind_the_host(), tmp_path / "behind")
    assert (found.idle_s, found.idle_while_fetching) == pytest.approx((2e-3, 0.1))
    # Without a GPU, it is unknown.
    assert gaps(Capture(), tmp_path / "none") == Gaps(pytest.approx(10e-3), None, None)


def test_idle_time_between_kernels_is_a_share_of_the_time(tmp_path):
    assert idle_between_kernels(Capture().save(tmp_path / "none")) is None
    capture = Capture()
    gpu = capture.gpu()
    for begin in (0, 3, 9):
        gpu.event("Stream #14(Kernel)", "sin", begin, 1)
    assert idle_between_kernels(capture.save(tmp_path / "gpu")) == pytest.approx(0.7)


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


def test_sending_a_batch_to_the_gpu_is_no_fetch(tmp_path):
    events = read_host_events(tmp_path / write_profile(tmp_path, "transformer"))
    of_fetches = [name for name in events if name.startswith(FETCH)]
    sent = [span for name in of_fetches if name.endswith(SEND) for span in events[name]]
    assert sent
    assert fetches(events)
    for span in sent:
        assert subtract([span], fetches(events)) == [span]
