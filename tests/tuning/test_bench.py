"""`keras-gpukit bench`: rows by importance, each with a result or a reason, within a budget."""

import multiprocessing
from dataclasses import replace

import pytest
from helpers import bench_tasks
from helpers.json_output import valid_json
from helpers.stopped_clock import StoppedClock

from keras_gpukit.cli.main import main
from keras_gpukit.records import BenchmarkRow, Driver, DriverGPU, from_dict
from keras_gpukit.reports.rates import benchmark_view as render
from keras_gpukit.reports.terminal import as_text
from keras_gpukit.sensors.host import measured_ceilings
from keras_gpukit.tuning import bench as machine
from keras_gpukit.tuning import bench_device as device


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch, tmp_path):
    """Nothing real is measured: processes start in a moment."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(machine, "read_driver", Driver)
    for name in ("open_device", "measure_ceilings", "measure_row"):
        monkeypatch.setattr(machine, name, getattr(bench_tasks, name))


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.setattr(machine, "read_driver", lambda: Driver(gpus=(DriverGPU(0),)))


def text(found):
    return " ".join(as_text(render(found)).split())


@pytest.mark.heavy
def test_each_device_gets_its_ceilings_and_rows_which_the_command_writes_and_keeps(gpu, capsys):
    assert main(["bench", "--json"]) == 0
    printed = valid_json("bench", capsys.readouterr().out)
    found = from_dict(printed, machine.MachineBenchmark)
    assert found.devices[1].rows[0].rate.median == 5.0
    assert measured_ceilings("A fast CPU").tflops["bfloat16"] == 1.5
    assert measured_ceilings("A slow CPU") is None
    on_gpu, on_cpu = found.devices
    assert (on_gpu.name, on_cpu.name) == ("A fast GPU", "A fast CPU")
    assert (on_gpu.ceilings.to_device_gb_per_s, on_cpu.ceilings.to_device_gb_per_s) == (12.0, None)
    settings = {(row.precision, row.jit) for row in on_gpu.rows}
    assert settings == {(p, j) for p in bench_tasks.SLOW for j in (False, True)}
    assert all(row.rate for row in (*on_gpu.rows, *on_cpu.rows))
    shown = text(found)
    assert "dense: fastest is GPU bfloat16, 2× GPU TF32, 400× CPU float32." in shown
    assert "copies to the GPU 12 GB/s" in shown
    assert "Not measured" not in shown
    assert multiprocessing.active_children() == []


@pytest.mark.heavy
def test_a_row_whose_process_ends_says_so_and_the_others_go_on(monkeypatch):
    monkeypatch.setattr(machine, "measure_row", bench_tasks.crash_on_jit)
    found = machine.bench(120.0)
    [on_cpu] = found.devices
    assert all("ended by itself" in row.failed_because for row in on_cpu.rows if row.jit)
    assert "dense, CPU float32 jit, failed: its process ended by itself" in text(found)
    assert all(row.rate for row in on_cpu.rows if not row.jit)


@pytest.mark.heavy
def test_a_row_that_hangs_is_given_up(monkeypatch):
    monkeypatch.setattr(machine, "measure_row", bench_tasks.hang_on_a_transformer)
    monkeypatch.setattr(machine, "LONGEST", 1 / 40)
    [on_cpu] = machine.bench(120.0).devices
    [hung] = [row for row in on_cpu.rows if row.rate is None]
    assert hung.failed_because == "it took more than 3 s"


@pytest.mark.heavy
def test_rows_without_time_left_are_named_and_the_most_important_are_measured(monkeypatch):
    clock = StoppedClock.of(monkeypatch, machine)

    def show_progress(what, done_s):
        clock.now_s += 8 * (what == "CPU: convolutional")  # which uses up the budget

    found = machine.bench(8.0, show_progress)
    measured = [row.model for row in found.devices[0].rows if row.rate]
    assert measured == ["dense", "convolutional"]
    shown = text(found)
    assert "Not measured within --seconds 8: CPU float32 (transformer), CPU float32 jit," in shown
    assert "failed" not in shown
    assert multiprocessing.active_children() == []


@pytest.mark.heavy
def test_ctrl_c_keeps_what_is_known():
    calls = []

    def show_progress(what, done_s):
        calls.append(what)
        if len(calls) == 4:
            raise KeyboardInterrupt

    found = machine.bench(60.0, show_progress)
    assert calls[0] == "CPU: ceilings"
    assert found.interrupted
    assert [row.model for row in found.devices[0].rows if row.rate] == ["dense", "convolutional"]
    assert "Not measured before Ctrl-C: CPU float32 (transformer), CPU float32 jit," in text(found)
    assert multiprocessing.active_children() == []


@pytest.mark.heavy
def test_a_gpu_that_tensorflow_does_not_see_leaves_the_cpu(gpu, monkeypatch):
    monkeypatch.setattr(machine, "open_device", bench_tasks.open_cpu_only)
    found = machine.bench(60.0)
    on_gpu, on_cpu = found.devices
    assert on_gpu.failed_because == "NoGPUError: TensorFlow lists no GPU"
    assert all(row.rate for row in on_cpu.rows)
    assert "Not measured within" not in text(found)


def test_no_time_at_all_measures_nothing(capsys):
    assert main(["bench", "--seconds", "1e-9"]) == 2
    shown = capsys.readouterr()
    flat = " ".join(shown.out.split())
    assert "Not measured within --seconds 1e-09: CPU ceilings, CPU float32, CPU float32 jit" in flat
    assert "nothing was measured" in shown.err


def test_a_gain_inside_the_noise_is_none():
    before = bench_tasks.measure_row(BenchmarkRow("CPU", "dense", "float32", False, 64))
    faster = replace(before.rate, median=before.rate.median * 1.04)
    rows = before, replace(before, jit=True, rate=faster)
    found = machine.DeviceBenchmark("CPU", 2, "", "A CPU", rows=rows)
    shown = text(machine.MachineBenchmark((found,), 60.0))
    assert "dense: fastest is CPU float32 jit, not measurably faster than CPU float32." in shown


# In `make test`, the demonstration and the tests above measure in small.
@pytest.mark.long
@pytest.mark.heavy
@pytest.mark.tensorflow
def test_rates_and_ceilings_are_measured_where_there_is_only_a_cpu(monkeypatch):
    import keras

    monkeypatch.setattr(device, "ROW_S", 0.01)
    monkeypatch.setattr(device, "SIZES", (16, 32))
    monkeypatch.setitem(device.NUMBERS, "CPU", 1000)
    try:
        row = device.measure_row(BenchmarkRow("CPU", "transformer", "bfloat16", False, 1))
        tf32 = device.measure_row(BenchmarkRow("CPU", "dense", "TF32", False, 1))
        ceilings = device.measure_ceilings("CPU", ("float32", "TF32", "float64"))
    finally:
        keras.config.set_dtype_policy("float32")
    assert row.rate is not None
    assert row.rate.low <= row.rate.median <= row.rate.high
    assert "compute capability 8.0" in tf32.failed_because
    assert sorted(ceilings.tflops) == ["float32", "float64"]  # it has no TF32
    assert ceilings.device_gb_per_s > 0
    assert ceilings.to_device_gb_per_s is None
