"""How near a run is to its GPU's limits, and what is said to limit it."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from keras_gpukit import records
from keras_gpukit.reports.layers import near_the_limits
from keras_gpukit.rules.compute.roofline import Roofline, data_sheet, roofline_of

DOCS = Path(__file__).parents[3] / "docs" / "explanation" / "flops.md"
H100 = records.GPUInfo(0, "NVIDIA H100 80GB HBM3", compute_capability=(9, 0))
T4 = records.GPUInfo(0, "Tesla T4")
UNCOUNTED = records.StepFlops(unknown_because="eager steps have no graph")
# What an H100 reached; see benchmarks/results/gpu/compute.all.json.
PEAKS = {"float64": 60.5, "float32": 51.4, "TF32": 362.4, "bfloat16": 736.8}
MEASURED = records.Ceilings(PEAKS, 2798.0)


def run(step_ms, flops, moved_gb=0.0, parts_ms=None, kinds_ms=None, gpu=H100, **settings):
    """A run on a GPU; `parts_ms` and `kinds_ms` are those of a profile."""
    environment = records.Environment({}, gpus=(gpu,), tf32=True, jit_compile=False)
    profile = None
    if parts_ms is not None:
        profile = records.ProfileRecord(
            steps=10,
            step_time_s=sum(parts_ms.values()) / 1e3,
            parts_s={part: each / 1e3 for part, each in parts_ms.items()},
            kinds_s={kind: each / 1e3 for kind, each in (kinds_ms or {}).items()},
            devices=(records.DeviceProfile("GPU:0", 0.9, 1000),),
        )
    return records.RunSummary(
        replace(environment, **settings),
        throughput=records.ThroughputRecord("fit", 1000, 1000, step_ms / 1e3, None),
        flops=records.StepFlops(flops, int(1e9 * moved_gb)),
        profile=profile,
    )


def measured(summary):
    return replace(summary, flops=replace(summary.flops, ceilings=MEASURED))


def limit_of(summary):
    found = roofline_of(summary)
    assert isinstance(found, Roofline), found
    return found.limit


def parts(device=0.0, launch=0.0, input=0.0, idle=0.0, host=0.0):
    names = ("device compute", "kernel launch", "input wait", "idle", "host compute")
    return dict(zip(names, (device, launch, input, idle, host), strict=True))


def kinds(matmul=0.0, elementwise=0.0, reduction=0.0, convolution=0.0):
    names = ("matmul", "elementwise", "reduction", "convolution")
    return dict(zip(names, (matmul, elementwise, reduction, convolution), strict=True))


# Steps, FLOPs and bytes of planted causes on an H100, with the parts of their captured steps.
BATCH_NORMALIZATION = run(
    *(32.2, {"bfloat16": 1859e9, "float32": 2e6}, 51.3, parts(28.3, 0.8, 0.6, 2.5)),
    kinds(0.0, 19.6, 4.1, 3.1),
)
BIAS_GRADIENT = run(
    25.0, {"bfloat16": 671e9}, 24.6, parts(18.9, 2.9, idle=2.4), kinds(1.6, 8.9, 7.1)
)
MANY_VARIABLES = run(34.7, {"float32": 94e6}, 0.05, parts(4.7, 47.6, idle=3.0), kinds(0.0, 3.8))
DENSE = run(
    *(10.5, {"bfloat16": 481e9, "float32": 0.5e9}, 2.2, parts(2.7, 0.9, 5.7, 2.0)),
    kinds(0.7, reduction=1.3),
)
FLOAT64 = run(
    *(6.0, {"float32": 215e9, "float64": 103e9}, 3.3, parts(3.4, 0.0, 0.8, 2.3)), kinds(2.5, 0.7)
)
HOST_FUNCTION = run(41.6, {"float32": 378e9}, 2.5, parts(1.9, 2.6, idle=7.5, host=29.6), kinds(1.3))


@pytest.mark.parametrize(
    ("summary", "limit"),
    [
        (BATCH_NORMALIZATION, "memory"),
        (BIAS_GRADIENT, "unknown"),
        (MANY_VARIABLES, "launches"),
        (DENSE, "input"),
        (FLOAT64, "compute"),
        (HOST_FUNCTION, "idle"),
    ],
)
def test_planted_causes_on_an_h100(summary, limit):
    assert limit_of(measured(summary)) == limit


def test_sentences_on_an_h100():
    assert near_the_limits(measured(BATCH_NORMALIZATION)) == (
        "57.7 TFLOP/s, 7.8 % of the 737 that keras-gpukit bench reached in bfloat16: memory-bound, "
        "moving 47.8 GiB takes 18.3 ms at the peak, and the GPU computes 28.3 ms of each 32.2 ms "
        "step."
    )
    assert near_the_limits(BIAS_GRADIENT) == (
        "26.8 TFLOP/s, 2.7 % of the GPU's 990 in bfloat16: neither products nor memory traffic "
        "explain most of it; the GPU computes 18.9 ms of each 25 ms step: elementwise 8.9 ms, "
        "reduction 7.1 ms."
    )
    assert near_the_limits(measured(HOST_FUNCTION)) == (
        "9.09 TFLOP/s, 2.5 % of the 362 that keras-gpukit bench reached in TF32: mostly idle, the "
        "GPU computes 1.9 ms of each 41.6 ms step, host compute 29.6 ms."
    )


def test_several_precisions_have_the_peak_of_their_mix():
    found = roofline_of(measured(FLOAT64))
    assert found.precisions == ("TF32", "float64")
    least_s = 0.215 / 362.4 + 0.103 / 60.5
    assert found.peak_tflops == pytest.approx(0.318 / least_s)
    assert found.share == pytest.approx(least_s / 6e-3)


@pytest.mark.parametrize(
    ("settings", "precision"),
    [({}, "TF32"), ({"tf32": False}, "float32"), ({"gpu": T4}, "float32")],
)
def test_float32_products_are_in_tf32_where_the_gpu_has_it(settings, precision):
    assert roofline_of(run(10, {"float32": 1e12}, **settings)).precisions == (precision,)


@pytest.mark.parametrize("worker", [None, records.Worker("worker", 0, 2)])
def test_replicas_of_a_process_share_the_operations(worker):
    replicas = 4 if worker else 2
    gpus = (H100, replace(H100, index=1))
    two = run(10, {"bfloat16": 2e12}, replicas=replicas, gpus=gpus, worker=worker)
    assert roofline_of(two).tflops == pytest.approx(roofline_of(run(10, {"bfloat16": 1e12})).tflops)


def test_xla_leaves_the_bytes_unknown_and_no_profile_all_but_the_wait():
    compiled = run(32.2, {"bfloat16": 1859e9}, 51.3, jit_compile=True)
    assert roofline_of(compiled).moved_bytes is None
    assert "memory traffic under XLA is unknown" in near_the_limits(compiled)
    waits = records.InputRecord("fit", "pipeline model", "exact", 1000, 5e-3, 0.5)
    assert limit_of(replace(run(10, {"bfloat16": 1e9}), input=waits)) == "input"
    assert limit_of(run(10, {"bfloat16": 1e9})) == "unknown"


@pytest.mark.parametrize(
    ("summary", "because"),
    [
        (run(10, {"bfloat16": 1e9}, gpu=records.GPUInfo(0, "NVIDIA X1")), "the peak of NVIDIA X1"),
        (run(10, {"bfloat16": 1e9}, gpu=replace(H100, uuid="MIG-1")), "the peak of these GPUs"),
        (run(10, {"bfloat16": 1e9}, gpu=T4), "the peak of Tesla T4 in bfloat16"),
        (run(10, {}), "a step without products"),
        (replace(run(10, {}), flops=UNCOUNTED), "eager steps have no graph"),
    ],
)
def test_what_is_unknown_has_a_reason(summary, because):
    assert because in roofline_of(summary)
    assert near_the_limits(summary) is None
    assert roofline_of(replace(summary, flops=None)) is None


def test_a_gpu_is_known_by_its_maker_s_name_and_no_part_or_other_kind_of_it():
    for name in ("NVIDIA H100 PCIe", "NVIDIA GeForce RTX 4090", "Tesla V100-SXM2-16GB"):
        assert data_sheet(name) == data_sheet(re.sub("NVIDIA |GeForce |Tesla ", "", name))
    for other in ("NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA A100-SXM4-80GB MIG 1g.10gb", ""):
        assert data_sheet(other) is None


def test_the_figures_of_each_gpu_are_those_of_the_docs():
    rows = re.findall(r"^\| ([A-Z][^|]*) ((?:\|[ \d.,]*){6})\|$", DOCS.read_text(), re.M)
    assert len(rows) > 25
    for names, cells in rows:
        found = data_sheet(re.split(", | and the like", names)[0])
        values = [cell.strip().replace(",", "") for cell in cells.split("|")[1:]]
        precisions = ("float64", "float32", "TF32", "float16", "bfloat16")
        known = zip(precisions, values, strict=False)
        assert found.tflops == {each: float(value) for each, value in known if value}, names
        assert found.device_gb_per_s == float(values[5])
