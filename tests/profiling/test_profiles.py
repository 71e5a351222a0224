"""Reading profiles: recorded ones of a CPU, and made-up ones of GPUs (see `synthetic_xplane`).

A profile of today's TensorFlow is read in `realtime` and by the tests of captures.
"""

from __future__ import annotations

import gzip
import json
import lzma
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.synthetic_xplane import (
    ADD,
    COMPUTE,
    COPIES,
    GEMM,
    NCCL,
    STEP_MS,
    STEPS,
    Capture,
    gpu_behind_the_host,
    one_after_the_other,
)
from helpers.xprof_figures import ask_xprof

from keras_gpukit.errors import ProfileError
from keras_gpukit.profiling import find_profiles, read_profile
from keras_gpukit.records import ProfileRecord, from_dict, to_dict
from keras_gpukit.rules.cluster.compared_workers import exchange_s, late_member
from keras_gpukit.saved_runs.worker_figures import compared_replicas, compared_steps

CASES = Path(__file__).parent / "cases"
# The first step is left out, and the last, whose end is not in the profile.
COUNTED = STEPS - 2


@pytest.fixture(scope="session")
def captures(tmp_path_factory) -> dict[str, Path]:
    """Taken on two cores, by `tests/profiling/cases/captures.py` at commit b7de146d."""
    folder = tmp_path_factory.mktemp("captures")
    for packed in (CASES / "cpu").iterdir():
        path = folder / packed.name.partition(".")[0] / "plugins/profile/run/vm.xplane.pb"
        path.parent.mkdir(parents=True)
        path.write_bytes(lzma.decompress(packed.read_bytes()))
    return {path.relative_to(folder).parts[0]: path for path in find_profiles(folder)}


def milliseconds(by_name) -> dict[str, float]:
    return {name: round(1e3 * seconds, 6) for name, seconds in by_name.items()}


def stepping(steps: int, wait: float, *, pause: float = 0.0) -> Capture:
    """Each step's 9 of 10 ms begin with a wait; before the fourth is a pause."""
    capture = Capture()
    for number in range(steps):
        at = number * STEP_MS + (pause if number >= 3 else 0)
        capture.step(number, at, 9)
        capture.host.event("python", "IteratorGetNextOp::DoCompute", at, wait)
    return capture


# --- a CPU's, captured


def test_a_stalled_run_says_so_and_names_the_stage(captures):
    record = read_profile(captures["stalled"])
    assert record.steps_from == "marker"
    assert (record.steps, record.steps_per_execution) == (10, 1)
    assert [step.number for step in record.each_step] == list(range(1, 11))
    # A batch sleeps for 80 ms, and a step for 20 of them.
    assert record.step_time_s == pytest.approx(0.08127, abs=1e-5)
    assert milliseconds(record.parts_s) == pytest.approx(
        {"input wait": 56.774, "host compute": 22.006, "between steps": 0.040, "idle": 2.449},
        abs=1e-3,
    )
    assert record.stall_fraction == pytest.approx(0.6986, abs=1e-4)
    assert record.stages[0].kind == "Sleep"
    assert record.stages[0].share == pytest.approx(0.996, abs=1e-3)
    assert record.operations[0].type == "ToSingleElement"  # how the model sleeps
    assert record.captured_s > 1.7e9
    assert (record.devices, record.kernels, record.problems) == ((), (), ())
    assert record.incomplete_because is None


@pytest.mark.parametrize("name", ["stalled", "mapped", "looped", "looped_marked"])
def test_parts_add_up(captures, name):
    record = read_profile(captures[name])
    assert sum(record.parts_s.values()) == pytest.approx(record.step_time_s)
    assert sum(record.kinds_s.values()) == pytest.approx(record.parts_s["host compute"])
    assert record.parts_s["input wait"] == pytest.approx(record.stall_fraction * record.step_time_s)
    for step in record.each_step:
        assert sum(step.parts_s.values()) == pytest.approx(step.duration_s)
    executions = record.steps // record.steps_per_execution
    assert len(record.each_step) == executions
    assert sum(step.duration_s for step in record.each_step) == pytest.approx(record.span_s)


def test_fetches_that_the_pipeline_makes_itself_are_no_waits(captures):
    # `prefetch_to_device` keeps fetching from another pipeline while the step computes.
    record = read_profile(captures["prefetched_to_device"])
    assert milliseconds(record.parts_s)["host compute"] == pytest.approx(21.038, abs=1e-3)
    assert record.stages[0].kind == "Sleep"
    assert record.stages[0].share == pytest.approx(0.997, abs=1e-3)


def test_xprof_agrees_on_a_cpu(captures):
    ours, theirs = read_profile(captures["stalled"]), ask_xprof(captures["stalled"])
    assert theirs["steps"] == ours.steps
    # To xprof a step ends with its function; callbacks of the user's between steps are no part.
    assert theirs["step_time_s"] <= ours.step_time_s
    assert theirs["step_time_s"] == pytest.approx(ours.step_time_s, rel=0.05)
    assert theirs["input_fraction"] == pytest.approx(ours.stall_fraction, abs=0.01)
    # Its host compute is ours and, but for a rest, the Python code around it, which is idle here.
    host_s, idle_s = ours.parts_s["host compute"], ours.parts_s["idle"]
    assert host_s < theirs["host_compute_s"] <= host_s + idle_s
    assert theirs["host_compute_s"] == pytest.approx(host_s + idle_s, rel=0.05)


def test_steps_are_told_without_markers_and_in_executions_of_several(captures):
    record = read_profile(captures["mapped"])
    assert record.steps_from == "train function"
    assert (record.steps, record.steps_per_execution) == (10, 1)
    assert {step.number for step in record.each_step} == {None}
    assert record.stages[0].name == "costly"
    assert read_profile(captures["stalled"]).stages[0].name == "sleep"
    assert "matmul" in record.kinds_s
    for name, source in (("looped", "train function"), ("looped_marked", "marker")):
        record = read_profile(captures[name])
        assert record.steps_from == source
        # Of three executions the first is left out, and the last.
        assert (record.steps, record.steps_per_execution) == (4, 4)


def loop() -> Capture:
    """Of each step's 5 ms the loop computes 3 and waits 4 for the next batch, 2 meanwhile."""
    capture, step = Capture(), "while/body/_1/while/StatefulPartitionedCall/dense/"
    for execution in range(5):
        at = execution * 10
        capture.step(2 * execution, at, 9.9)
        for begin in (at, at + 5):
            capture.host.event("worker", f"{step}MatMul:MatMul", begin, 1)
            capture.host.event("worker", f"{step}Add:AddV2", begin + 2, 1)
            capture.host.event("fetch", "IteratorGetNextAsOptionalOp::DoCompute", begin + 1, 4)
    return capture


def test_in_a_loop_the_step_before_hides_a_wait(tmp_path):
    record = read_profile(loop().save(tmp_path))
    assert (record.steps, record.steps_per_execution) == (6, 2)
    assert record.step_time_s == pytest.approx(5e-3)
    assert record.stall_fraction == pytest.approx(2 / 5)
    assert milliseconds(record.parts_s) == {"host compute": 3, "input wait": 2}
    assert milliseconds(record.kinds_s) == {"matmul": 1, "elementwise": 1, "other": 1}
    capture = loop()
    for event in capture.host.plane.lines[0].events:
        event.stats[0].int64_value //= 2
    record = read_profile(capture.save(tmp_path))
    assert (record.steps, record.steps_per_execution) == (6, 2)


def test_reading_loads_neither_tensorflow_nor_tensorboard(captures):
    program = (
        "import sys; from keras_gpukit.profiling import read_profile\n"
        f"assert read_profile({str(captures['stalled'])!r}).steps == 10\n"
        "assert not {'tensorflow', 'keras', 'tensorboard', 'xprof'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_a_record_survives_json_and_a_copy_of_its_file_gives_the_same(captures, tmp_path):
    record = read_profile(captures["mapped"])
    plain = json.loads(json.dumps(to_dict(record)))
    assert from_dict(plain, ProfileRecord) == record
    copy = tmp_path / "other name.xplane.pb"
    copy.write_bytes(captures["mapped"].read_bytes())
    assert read_profile(copy) == record


# --- a GPU's, made up


def test_where_a_gpu_step_went(tmp_path):
    record = read_profile(one_after_the_other().save(tmp_path))
    assert record.steps == COUNTED
    assert record.step_time_s == pytest.approx(STEP_MS / 1e3)
    assert record.span_s == pytest.approx(COUNTED * STEP_MS / 1e3)
    assert milliseconds(record.parts_s) == {
        "input wait": 4,
        "kernel launch": 0.2,
        "host to device": 0.5,
        "device compute": 3.5,
        "collectives": 0.5,
        "other copies": 0.1,
        "between steps": 0.2,
        "idle": 1,
    }
    assert milliseconds(record.kinds_s) == {"matmul": 3, "elementwise": 0.5}
    assert record.stall_fraction == pytest.approx(0.4)
    of_four = compared_steps(replace(record, steps_per_execution=4))
    assert of_four[0].input_s == pytest.approx(1e-3)
    capture = one_after_the_other()
    for plane in capture.space.planes:
        for line in plane.lines:
            line.timestamp_ns += 1_795_000_000_000_000_000
    record = read_profile(capture.save(tmp_path))
    assert record.stall_fraction == pytest.approx(0.4)


def test_what_a_gpu_did(tmp_path):
    record = read_profile(one_after_the_other(gpus=2).save(tmp_path))
    assert [device.device for device in record.devices] == ["GPU:0", "GPU:1"]
    for device in record.devices:
        assert device.busy_fraction == pytest.approx(0.46)
        assert device.kernels == 3 * COUNTED
        assert device.host_to_device_bytes == 1_000_000 * COUNTED
        assert device.tensor_core_fraction == pytest.approx(3 / 5)
        assert device.compute_capability == "9.0"
    assert {layer.path: layer.kernels for layer in record.layers} == {"model/dense": 4.0}
    gemm, *others = record.kernels
    assert (gemm.name, gemm.kind, gemm.tensor_core) == (GEMM, "matmul", True)
    assert (gemm.count, gemm.operation) == (2 * COUNTED, "model/dense/MatMul")
    assert gemm.time_s == pytest.approx(2 * COUNTED * 3e-3)
    assert gemm.share == pytest.approx(3 / 5)
    assert {kernel.name: kernel.kind for kernel in others} == {
        ADD: "elementwise",
        NCCL: "collective",
    }
    assert [operation.type for operation in record.operations][:1] == ["MatMul"]


def test_work_of_the_gpu_hides_a_wait(tmp_path):
    record = read_profile(gpu_behind_the_host().save(tmp_path))
    assert milliseconds(record.parts_s) == {
        "device compute": 8,
        "input wait": 1,
        "kernel launch": 0.1,
        "idle": 0.9,
    }
    assert record.stall_fraction == pytest.approx(0.1)
    # A batch on its way to the GPU is still waited for.
    capture = gpu_behind_the_host()
    gpu = capture.gpu(1)
    for number in range(STEPS):
        gpu.event(COPIES, "MemcpyH2D", number * STEP_MS + 5, 1.0)
    assert read_profile(capture.save(tmp_path)).stall_fraction == pytest.approx(0.1)


def test_xprof_sums_kernels_up_alike_but_knows_no_recent_tensor_cores(tmp_path):
    path = one_after_the_other().save(tmp_path)
    ours = {kernel.name: kernel for kernel in read_profile(path).kernels}
    theirs = ask_xprof(path)["kernels"]
    assert ours.keys() == theirs.keys()
    for name, kernel in theirs.items():
        # They count all of the profile, we the steps that are whole in it.
        assert kernel["count"] * COUNTED == ours[name].count * STEPS
        assert kernel["time_s"] * COUNTED == pytest.approx(ours[name].time_s * STEPS)
    assert ours[GEMM].tensor_core
    assert not theirs[GEMM]["tensor_core"]


def test_a_pause_between_epochs_is_no_step_and_a_slow_callback_belongs_to_its_own(tmp_path):
    capture = stepping(6, wait=1.0, pause=500)
    capture.host.event("python", "MakeIterator::RootDataset", 500, 1)
    record = read_profile(capture.save(tmp_path))
    assert record.steps == 3
    assert record.step_time_s == pytest.approx(0.01)
    assert record.stall_fraction == pytest.approx(0.1)
    record = read_profile(stepping(6, wait=1.0, pause=500).save(tmp_path))
    assert [step.number for step in record.each_step] == [1, 2, 3, 4]
    assert record.step_time_s == pytest.approx((4 * 0.01 + 0.5) / 4)
    assert record.parts_s["between steps"] == pytest.approx((4 * 0.001 + 0.5) / 4)


def test_a_single_step_is_read_and_a_profile_without_steps_says_so(tmp_path):
    capture = Capture()
    capture.step(3, 5, 10)
    capture.host.event("python", "IteratorGetNextOp::DoCompute", 6, 2)
    record = read_profile(capture.save(tmp_path))
    assert (record.steps, record.each_step[0].number) == (1, 3)
    assert record.stall_fraction == pytest.approx(0.2)
    capture = Capture()
    capture.host.event("python", "something", 0, 1)
    record = read_profile(capture.save(tmp_path))
    assert (record.steps, record.step_time_s, record.parts_s) == (0, None, {})
    assert "No step is marked" in record.steps_unknown_because
    assert record.stall_unknown_because == "no step is known in the profile"


def marked_twice() -> Capture:
    """The user's own marks, numbered from 100 on, around those of a callback."""
    capture = Capture()
    for number in range(STEPS):
        at = number * STEP_MS
        capture.step(100 + number, at, 9.5)
        capture.step(number, at + 0.1, 9)
        capture.host.event("python", "IteratorGetNextOp::DoCompute", at + 1, 4)
    return capture


def test_a_step_that_is_marked_twice_is_one_and_a_mark_around_several_is_none(tmp_path):
    record = read_profile(marked_twice().save(tmp_path))
    assert record.steps == COUNTED
    assert record.step_time_s == pytest.approx(0.01)
    assert [step.number for step in record.each_step] == list(range(1, 1 + COUNTED))
    assert milliseconds(record.parts_s) == {"input wait": 4, "between steps": 1, "idle": 5}
    capture = marked_twice()
    capture.step(1000, 0, 4 * STEP_MS)
    for begin in (0, 4 * STEP_MS):
        capture.step(2000, begin, 4 * STEP_MS)
    record = read_profile(capture.save(tmp_path))
    assert [step.number for step in record.each_step] == list(range(1, 1 + COUNTED))


def test_marks_on_different_threads_are_not_within_each_other(tmp_path):
    capture = Capture()
    for number in range(STEPS):
        line = f"thread {number % 2}"
        capture.host.event(line, "train", number * STEP_MS, 9, step_num=number, _r=1)
    capture.host.event("thread 2", "train", 0, 9, step_num=STEPS, _r=1)
    assert read_profile(capture.save(tmp_path)).steps == COUNTED + 1


def test_keras_own_profile_has_steps_too(tmp_path):
    capture = Capture()
    for number in range(5):  # as its TensorBoard callback marks them, without `_r`
        capture.host.event("python", "Profiled batch", number * 10, 9, step_num=number)
    record = read_profile(capture.save(tmp_path))
    assert (record.steps, record.steps_from) == (3, "marker")
    assert record.stall_fraction is None
    assert "no fetch of a batch" in record.stall_unknown_because


def test_what_the_profiler_could_not_do_is_said_and_not_without_bounds(tmp_path):
    capture = one_after_the_other()
    capture.space.errors.append("CUPTI: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES")
    capture.space.warnings.append("something else")
    capture.gpu(1).property(dropped_traces=42)
    dropped, privileges, other = read_profile(capture.save(tmp_path)).problems
    assert "NVreg_RestrictProfilingToAdminUsers=0" in privileges
    assert other == "something else"
    assert "GPU:1 (42)" in dropped
    capture.space.errors.extend(f"error {number}" for number in range(100))
    assert 3 < len(read_profile(capture.save(tmp_path)).problems) < 50


def test_stages_are_ranked_by_what_they_blocked(tmp_path):
    capture = stepping(STEPS, wait=4)
    for at in (number * STEP_MS for number in range(STEPS)):
        ids = {"id": 7, "name": "decode"}
        capture.host.event("worker", "Iterator::Root::Map", at, 8, **ids)
        below = {"id": 8, "parent_id": 7, "name": "read"}
        capture.host.event("worker", "Iterator::Root::Map::TFRecord", at + 3, 2, **below)
    decode, read = read_profile(capture.save(tmp_path)).stages
    assert (decode.name, decode.kind) == ("decode", "Map")
    assert (decode.blocked_s, decode.own_s) == (pytest.approx(3e-3), pytest.approx(6e-3))
    assert (decode.share, read.share) == (pytest.approx(0.75), pytest.approx(0.25))


def test_stages_without_a_name_are_called_as_they_are_written(tmp_path):
    capture = stepping(STEPS, wait=8)
    chain = [
        (3, "Prefetch", "inject/prefetch_MapDataset/_7"),
        (9, "ParallelMapV2", "ParallelMapDatasetV2:9"),
        (10, "ParallelMapV2", "ParallelMapDatasetV2:10"),
        (11, "Map", "decode"),
        (12, "TFRecord", "TFRecordDataset:12"),
    ]
    for at in (number * STEP_MS for number in range(STEPS)):
        for place, (stage, kind, name) in enumerate(chain):
            ids = {"id": stage, "name": name, "parent_id": chain[place - 1][0] if place else ""}
            capture.host.event("worker", f"Iterator::Root::{kind}", at, 8 - place, **ids)
    stages = read_profile(capture.save(tmp_path)).stages
    names = {stage.name for stage in stages}
    assert names == {"prefetch", "map", "map 2", "decode", "TFRecordDataset"}
    assert [stage.name for stage in stages if stage.is_named] == ["decode"]


# --- what is no profile, and what is none any more


def foreign(kind: str) -> bytes:
    import numpy as np
    from tensorflow.core.framework import graph_pb2

    graph = graph_pb2.GraphDef()
    graph.node.add(name="x", op="Placeholder")
    return {
        "empty": b"",
        "text": b"step,loss\n1,0.5\n" * 100,
        "picture": b"\x89PNG\r\n\x1a\n" + bytes(200),
        "gzip": gzip.compress(b"profile"),
        "zeros": bytes(10_000),
        "noise": np.random.default_rng(0).bytes(10_000),
        "graph": graph.SerializeToString(),
        "cut off": one_after_the_other().space.SerializeToString()[:-20],
    }[kind]


@pytest.mark.parametrize(
    "kind", ["empty", "text", "picture", "gzip", "zeros", "noise", "graph", "cut off"]
)
def test_what_is_no_profile_is_refused(tmp_path, kind):
    path = tmp_path / f"{kind}.xplane.pb"
    path.write_bytes(foreign(kind))
    with pytest.raises(ProfileError, match=r"Received: path=.*xplane\.pb") as error:
        read_profile(path)
    message = {"empty": "empty", "picture": "picture", "gzip": "gzip"}.get(kind, "not a profile")
    assert message in str(error.value)


def test_what_is_not_there_or_huge_is_said(tmp_path):
    for path in (tmp_path / "none.xplane.pb", tmp_path):
        with pytest.raises(ProfileError, match="no such file"):
            read_profile(path)
    path = tmp_path / "huge.xplane.pb"
    with path.open("wb") as file:
        file.truncate(3 << 30)  # takes no space on the disk
    with pytest.raises(ProfileError, match=r"3,072 MiB .* Capture fewer steps"):
        read_profile(path)


def damaged(whole: bytes):
    chance = random.Random(0)
    for _ in range(40):
        yield whole[: chance.randrange(len(whole))]
    for _ in range(60):
        content = bytearray(whole)
        for _ in range(chance.choice((1, 3, 30))):
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        yield bytes(content)


@pytest.mark.parametrize("of", ["CPU", "GPU"])
def test_damaged_profiles_are_refused_or_read_to_a_sound_record(tmp_path, of):
    recorded = gzip.decompress((CASES / "cpu.xplane.pb.gz").read_bytes())
    whole = recorded if of == "CPU" else one_after_the_other().space.SerializeToString()
    path, outcomes = tmp_path / "damaged.xplane.pb", Counter()
    for content in damaged(whole):
        path.write_bytes(content)
        try:
            record = read_profile(path)
        except ProfileError:
            outcomes["refused"] += 1
            continue
        outcomes["read"] += 1
        assert from_dict(json.loads(json.dumps(to_dict(record), allow_nan=False)), ProfileRecord)
        if record.steps:
            parts_s = sum(record.parts_s.values())
            assert parts_s == pytest.approx(record.step_time_s, rel=1e-3)
            assert record.stall_fraction is None or 0 <= record.stall_fraction <= 1
    assert min(outcomes["refused"], outcomes["read"]) > 10, outcomes


def test_of_too_many_events_some_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_gpukit.profiling.reading.space.MOST_EVENTS", 3 * STEPS)
    record = read_profile(one_after_the_other().save(tmp_path))
    assert "there are more events than are read" in record.incomplete_because
    assert record.steps > 0


# --- finding them


def test_profiles_are_found_at_any_depth_and_only_inside(tmp_path):
    inside, outside = tmp_path / "logs", tmp_path / "elsewhere"
    shallow = one_after_the_other().save(inside)
    hosts = [one_after_the_other().save(inside / "a" / "b" / "c", name) for name in ("h0", "h1")]
    secret = one_after_the_other().save(outside)
    (inside / "link to folder").symlink_to(outside)
    (shallow.parent / "link.xplane.pb").symlink_to(secret)
    (shallow.parent / "dangling.xplane.pb").symlink_to(tmp_path / "nothing")
    (shallow.parent / "notes.txt").write_text("no profile")
    (inside / "folder.xplane.pb").mkdir()
    assert find_profiles(inside) == sorted([shallow, *hosts])
    assert find_profiles(tmp_path / "not yet") == []
    assert find_profiles("no\0name") == []


def test_of_too_many_folders_those_near_the_top_are_looked_into(tmp_path, monkeypatch):
    near = one_after_the_other().save(tmp_path / "z")
    deep = tmp_path / "a" / "b" / "c" / "d"
    one_after_the_other().save(deep / "z")
    for number in range(20):
        (deep / str(number)).mkdir()
    assert len(find_profiles(tmp_path)) == 2
    monkeypatch.setattr("keras_gpukit.records.names.MOST_FOLDERS", 20)
    assert find_profiles(tmp_path) == [near]


@contextmanager
def without_privileges():
    """Root may enter any folder."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


def test_a_folder_that_may_not_be_entered_hides_no_other():
    with tempfile.TemporaryDirectory() as folder:  # one that others may enter, unlike tmp_path
        logs = Path(folder, "logs")
        path = one_after_the_other().save(logs)
        closed = one_after_the_other().save(logs, "closed").rename(logs / "closed.xplane.pb")
        Path(folder).chmod(0o755)
        logs.chmod(0o744)
        try:
            with without_privileges():
                assert find_profiles(folder) == [closed]
                with pytest.raises(ProfileError, match="Permission denied"):
                    read_profile(closed)
        finally:
            logs.chmod(0o755)
        assert find_profiles(folder) == sorted([path, closed])


def test_operations_that_wait_for_other_workers_are_collectives(tmp_path):
    capture, name = Capture(), "StatefulPartitionedCall"
    for step in range(6):
        begin = 10.0 * step
        capture.step(100 + step, begin, 9.5)
        capture.host.event("worker", f"{name}/dense/MatMul:MatMul", begin + 1, 3.0)
        # It is waited for from 4 to 8 ms, and its first millisecond is computed through.
        reduced = f"{name}/sgd/CollectiveReduceV2:CollectiveReduceV2"
        capture.host.event("async", reduced, begin + 3, 5.0)
        capture.host.event("worker", f"{name}/sgd/Assign:AssignSubVariableOp", begin + 8, 0.5)
    profile = read_profile(capture.save(tmp_path))
    assert profile.parts_s["collectives"] == pytest.approx(4e-3)
    assert profile.parts_s["host compute"] == pytest.approx(3.5e-3)
    steps = compared_steps(profile)
    assert [each.step for each in steps] == [101, 102, 103, 104]
    assert all(each.busy_s == pytest.approx(6e-3) for each in steps)
    several = compared_steps(replace(profile, steps_per_execution=4))
    assert several[0].duration_s == pytest.approx(steps[0].duration_s / 4)
    assert all(each.busy_s == pytest.approx(6e-3 / 4) for each in several)


def late_gpu(steps, late_ms=3.0, hidden_ms=0.0):
    """Two GPUs of one process; the second one computes longer, and waits for no other.

    For `hidden_ms`, they compute while they exchange data.
    """
    capture = Capture()
    gpus = [capture.gpu(index) for index in range(2)]
    for step in range(steps):
        begin = 10.0 * step
        capture.step(step, begin, 9.5)
        for gpu, work in zip(gpus, (4.0, 4.0 + late_ms), strict=True):
            gpu.event(COMPUTE, GEMM, begin + 1, work)
            gpu.event(COMPUTE, NCCL, begin + 1 + work, 4.0 + late_ms + 0.5 - work)
            if hidden_ms:
                gpu.event("Stream #9(Compute)", ADD, begin + 1 + work, hidden_ms)
    return capture


def test_the_gpu_that_the_others_wait_for_is_a_straggler(tmp_path):
    profile = read_profile(late_gpu(10).save(tmp_path))
    found = compared_replicas(profile)
    assert (found.kind, found.expected) == ("replica", 2)
    late = late_member(found)
    assert (late.member.index, late.cause) == (1, None)
    assert late.median_s == pytest.approx(3e-3)
    assert exchange_s(found) == pytest.approx(0.5e-3)
    several = replace(profile, steps_per_execution=4)
    assert exchange_s(compared_replicas(several)) == pytest.approx(0.5e-3 / 4)
    hidden = compared_replicas(read_profile(late_gpu(10, hidden_ms=0.2).save(tmp_path / "h")))
    assert exchange_s(hidden) == pytest.approx(0.3e-3)
    even = compared_replicas(read_profile(late_gpu(10, late_ms=0.0).save(tmp_path / "even")))
    assert late_member(even) is None
    alone = read_profile(one_after_the_other(gpus=1).save(tmp_path / "alone"))
    assert compared_replicas(alone) is None
