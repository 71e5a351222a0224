"""Steps that compute badly for a known cause, as an H100 trained them: what the verdict says first.

`compute.all.json` has how long their steps took with the cause and without it; the models are
`benchmarks/gpu/compute_causes.py` at commit b57ad64f.
"""

import functools
import json
import lzma
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from helpers.processes import ROOT
from helpers.summaries import stall, throughput

from keras_gpukit.profiling import read_profile
from keras_gpukit.records import DeviceProfile, Environment, GPUInfo, ProfileRecord, RunSummary
from keras_gpukit.rules import judge
from keras_gpukit.rules.savings import time_of_steps_s
from keras_gpukit.saved_runs.log_folder import load_report

RESULTS = ROOT / "benchmarks/results/gpu"
MEASURED = json.loads((RESULTS / "compute.all.json").read_text())["measured"]
TINY = json.loads((RESULTS / "launches.all.json").read_text())["measured"]
"""A model of 500 tiny operations: as it is, the parts of a captured step, and with each change."""
MARGIN = 0.03
"""Of the run; step times differed by up to 12 % between two fits of the same model."""

FIRST = {
    "batch_normalization": ("unfused-operations", "66 % of the GPU time is batch normalization"),
    "bias_gradient": ("unfused-operations", "22 % of the GPU time is the bias gradient"),
    "optimizer": ("unfused-operations", "83 % of the GPU time is the optimizer's update"),
    "many_variables": ("launch-bound", "most of them of optimizer"),
    "casts": ("float32-layers", "6 layers compute in float32 in a model in mixed_bfloat16"),
    "odd_width": ("misaligned-products", "most in dense_171"),
    "float64": ("float64-kernels", "most in precise"),
    "embedding": ("dense-embedding-update", "(embedding): 63 %"),
    "host_function": ("python-in-step", "Python functions take 70 % of each step"),
    "small_products": ("launch-bound", "most of them of heads"),
    "recurrent_dropout": ("launch-bound", "most of them of lstm"),
}
ADVICE = {
    "small_products": "heads: one batched product in place of 197 small ones",
    "recurrent_dropout": "recurrent_dropout=0",
    "many_variables": "jit_compile=True",
    "float64": "Compute precise",
}
LAUNCHES, FUSION, COPY = {"launch-bound"}, {"unfused-operations"}, {"host-to-device-copy"}
LARGE_BATCH = "odd_width"
"""Has batches of 34 MB, and waits longer for their copy than it loses by its width."""
STILL = {
    # These models are small: the GPU waits for launches in any case.
    "many_variables": LAUNCHES,
    "embedding": LAUNCHES,
    "small_products": {*LAUNCHES, *COPY},
    "recurrent_dropout": LAUNCHES,
    "odd_width": COPY,
    "host_function": COPY,
    # The bias gradient in bfloat16 takes a third of the GPU time here, too.
    "casts": FUSION,
}


pytestmark = pytest.mark.skipif(
    not (RESULTS / "compute").exists(), reason="these captures are not in the sdist"
)


@functools.cache
def judged(name):
    """Returns the summary of a run with its profile and verdict."""
    with TemporaryDirectory() as folder:
        (gpukit := Path(folder, "gpukit")).mkdir()
        for kind, path in {"run.jsonl": "run.jsonl", "xplane.pb": "host.xplane.pb"}.items():
            packed = (RESULTS / "compute" / f"{name}.{kind}.xz").read_bytes()
            (gpukit / path).write_bytes(lzma.decompress(packed))
        [run] = load_report(Path(folder)).runs
        profile = read_profile(gpukit / "host.xplane.pb")
    summary = replace(run.summary, profile=profile)
    return replace(summary, verdict=judge(summary))


@pytest.mark.parametrize("name", FIRST)
def test_the_planted_cause_comes_first_and_saves_what_it_promises(name):
    summary = judged(f"{name}-wasteful")
    found, (code, title) = summary.findings[name == LARGE_BATCH], FIRST[name]
    assert found.code == code
    assert title in found.title
    assert ADVICE.get(name, "") in found.advice[0]
    row = MEASURED[name.replace("_", " ")]
    share = 1 - sum(row["fixed_ms"]) / sum(row["wasteful_ms"])
    saved_s, margin_s = share * time_of_steps_s(summary), MARGIN * found.saving.of_s
    assert found.saving.low_s - margin_s <= saved_s <= found.saving.high_s + margin_s


@pytest.mark.parametrize("name", FIRST)
def test_without_the_cause_it_is_not_found(name):
    findings = judged(f"{name}-fixed").findings
    causes = {each.code for each in findings if each.severity != "info"}
    assert causes == STILL.get(name, set())


def test_a_model_of_tiny_operations_saves_with_xla_what_is_promised():
    plain, parts_ms = TINY["plain"], TINY["idle"]["parts_ms"]
    step_s, steps = 1e-3 * plain["step_ms"], plain["steps"]
    parts_s = {part: 1e-3 * ms for part, ms in parts_ms.items()}
    profile = ProfileRecord(
        steps=8,
        step_time_s=sum(parts_s.values()),
        parts_s=parts_s,
        kinds_s={"elementwise": parts_s["device compute"]},
        devices=(DeviceProfile("GPU:0", 0.08, kernels=4000),),
    )
    waits = plain["reported"]
    summary = RunSummary(
        Environment({}, gpus=(GPUInfo(0),), steps_per_execution=1, jit_compile=False),
        throughput(step_s, steps, wall_s=plain["findings"][0]["of_s"]),
        stall(waits, steps=steps, wait_s=step_s * waits),
        profile=profile,
    )
    found = judge(summary).findings[0]
    assert found.code == "launch-bound"
    assert (found.saving.low_s, found.saving.high_s) == pytest.approx((8.2, 29.5), abs=0.05)
    saved_s = 1e-3 * steps * (plain["step_ms"] - TINY["jit"]["step_ms"])
    # 21.0 s of 32.8 s: more than the wait for launches, since XLA fuses the kernels too.
    assert found.saving.low_s <= saved_s <= found.saving.high_s


def test_a_large_batch_is_waited_for_while_it_is_copied():
    """Its pipeline is ready: the run's own input stall is 0.3 %, and sending it is no wait."""
    summary = judged(f"{LARGE_BATCH}-fixed")
    found = summary.findings[0]
    assert found.title == "Copies to the GPU take 59 % of each step"
    [copied] = [each.value for each in found.evidence if each.key == "copied_to_the_GPU_per_step"]
    assert copied == pytest.approx(4096 * 2048 * 4, rel=0.01)
    assert summary.profile.stall_fraction < 0.01
    # A batch of an eighth of the bytes takes an eighth of the time.
    parts_s = judged("float64-fixed").profile.parts_s
    whole_s = summary.profile.parts_s["host to device"]
    assert parts_s["host to device"] * 8 == pytest.approx(whole_s, rel=0.2)
