"""Kinds of kernels, and Tensor Cores: two captures of an H100, and names seen elsewhere.

The captures are of fits in mixed bfloat16 without XLA (TensorFlow 2.21, Keras 3.15, cuDNN 9): a
residual network and a transformer.
"""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import pytest
from helpers.findings import evidence, row
from helpers.recorded_profiles import CASES, read_recorded
from helpers.synthetic_xplane import COMPUTE, Capture

from keras_gpukit.profiling import read_profile
from keras_gpukit.profiling.reading.gpu import gpus_of
from keras_gpukit.profiling.reading.space import read_space
from keras_gpukit.records import Environment, GPUInfo, RunSummary, ThroughputRecord
from keras_gpukit.rules import judge

EAGER = "EagerLocalExecute: "
# Kernels by how their names begin; Eigen's by their outermost operation.
KERNELS = {
    "sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32": ("convolution", True),
    "sm90_xmma_dgrad_implicit_gemm_bf16bf16_bf16f32": ("convolution", True),
    "sm90_xmma_wgrad_indexed_implicit_gemm_bf16bf16_bf16f32": ("convolution", True),
    "nvjet_sm90_tst_": ("matmul", True),
    "void tensorflow::BiasGradNHWC_SharedAtomics<": ("bias gradient", False),
    "void tensorflow::functor::ColumnReduceKernel<": ("reduction", False),
    "void tensorflow::functor::RowReduceKernel<": ("reduction", False),
    "void tensorflow::(anonymous namespace)::GenerateNormalizedProb<": ("normalization", False),
    "void tensorflow::functor::SwapDimension1And2InTensor3UsingTiles<": ("data movement", False),
    "Eigen::TensorShufflingOp": ("data movement", False),
    "Eigen::TensorBroadcastingOp": ("data movement", False),
    "Eigen::TensorConversionOp": ("cast", False),
    "Eigen::TensorCwiseBinaryOp": ("elementwise", False),
    "Eigen::TensorCwiseUnaryOp": ("elementwise", False),
    "void tensorflow::BiasNHWCKernel<": ("elementwise", False),
    "Mul_GPU_DT_FLOAT_": ("elementwise", False),
    "Sub_GPU_DT_FLOAT_": ("elementwise", False),
    "AddV2_GPU_DT_FLOAT_": ("elementwise", False),
    "main_kernel": ("elementwise", False),  # Neg, Rsqrt and SquaredDifference
}


def read(name: str, folder: Path):
    """Returns how a kernel is read from a profile that it takes all the time of."""
    capture = Capture()
    gpu = capture.gpu()
    for number in range(3):
        capture.step(number, number * 10, 9)
        gpu.event(COMPUTE, name, number * 10 + 1, 5)
    [kernel] = read_profile(capture.save(folder)).kernels
    return kernel.kind, kernel.tensor_core


@pytest.mark.parametrize("name", ["convolutional", "transformer"])
def test_every_kernel_that_matters_on_an_h100(tmp_path, name):
    content = gzip.decompress((CASES / f"{name}.xplane.pb.gz").read_bytes())
    [gpu] = gpus_of(read_space(content)).members
    events, times_ps = gpu.plane.events, Counter()
    for kind, duration_ps in zip(
        events.kind[gpu.kernels], events.duration_ps[gpu.kernels], strict=True
    ):
        times_ps[events.names[kind]] += int(duration_ps)
    kernels = [each for each, ps in times_ps.items() if ps > 0.01 * times_ps.total()]
    assert len(kernels) > 15
    for kernel in kernels:
        began = kernel.split("Eigen::MakePointer>, ", 1)[-1] if "EigenMeta" in kernel else kernel
        [expected] = [value for start, value in KERNELS.items() if began.startswith(start)]
        assert read(kernel, tmp_path) == expected, kernel


def test_shares_of_the_kinds_on_an_h100():
    record = read_recorded("transformer")
    assert not record.kinds_s.keys() & {"convolution", "other"}
    # A bias' gradient alone takes that.
    assert record.kinds_s["bias gradient"] > 0.24 * sum(record.kinds_s.values())
    assert record.devices[0].tensor_core_fraction == pytest.approx(0.08, abs=0.01)


def test_waits_for_launches_on_an_h100():
    # A thousand kernels a step, which the host launches hardly faster than the GPU computes them.
    record = read_recorded("transformer")
    assert record.parts_s["kernel launch"] / record.step_time_s == pytest.approx(0.14, abs=0.01)
    assert record.parts_s["idle"] / record.step_time_s < 0.06
    assert launch_bound(record) is None  # its kernels take longer
    found = launch_bound(record, jit_compile=True)  # which XLA would have fused
    assert row("kernels_per_step", 1028.0) in evidence(found)
    assert launch_bound(read_recorded("convolutional")) is None


def test_a_step_of_many_tiny_kernels_is_launch_bound(tmp_path):
    # As on the H100: 500 kernels of 1.15 µs, one each 8 µs.
    capture = Capture()
    gpu = capture.gpu()
    for number in range(5):
        at = number * 5
        capture.step(number, at, 4.9)
        call = f"{EAGER}__inference_multi_step_on_iterator_15861"
        capture.host.event("python3", call, at + 0.6, 4.1)
        capture.host.event("python3", f"{EAGER}OptionalHasValue", at + 4.7, 0.1)
        for kernel in range(500):
            gpu.event(COMPUTE, "Sin_GPU_DT_FLOAT_kernel", at + 0.7 + 0.008 * kernel, 0.00115)
    record = read_profile(capture.save(tmp_path))
    assert record.parts_s["device compute"] == pytest.approx(0.575e-3)
    assert record.parts_s["kernel launch"] == pytest.approx(3.525e-3)
    assert launch_bound(record).severity == "critical"


def launch_bound(record, **settings):
    """Returns the finding on launches in a run whose steps take as long as those captured."""
    gpus = (GPUInfo(0, compute_capability=(9, 0)),)
    speed = ThroughputRecord("fit", 1000, 1000, record.step_time_s, None)
    environment = Environment({}, gpus=gpus, **settings)
    summary = RunSummary(environment, throughput=speed, profile=record)
    return next((each for each in judge(summary).findings if each.code == "launch-bound"), None)


@pytest.mark.parametrize(
    ("name", "kind", "tensor_core"),
    [
        ("volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn", "matmul", True),
        ("void cutlass::Kernel<cutlass_80_tensorop_s16816gemm_f16_64x64>", "matmul", True),
        ("nvjet_hsh_128x128_64x4_2x1_v_bz_coopA_TNN", "matmul", True),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x64x8_ffma", "matmul", False),
        ("sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x64", "matmul", True),
        ("sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x256x32_warpgroup", "matmul", True),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nn_align1>", "matmul", False),
        ("ampere_sgemm_128x64_nn", "matmul", False),
        ("gemm_fusion_dot_884", "matmul", None),
        ("void implicit_convolve_sgemm<float, 1024>", "convolution", False),
        ("sm80_xmma_fprop_implicit_gemm_tf32tf32_tf32f32_f32", "convolution", True),
        ("turing_h1688cudnn_256x64_sliced1x2_ldg8_relu_exp_small_nhwc", "convolution", True),
        ("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float>", "normalization", False),
        ("void cudnn::bn_bw_1C11_kernel_new<float>", "normalization", False),
        ("void cudnn::batchnorm_fwtr_nhwc_semiPersist<__half>", "normalization", False),
        ("void tensorflow::functor::FusedBatchNormInferenceMetaKernel", "normalization", False),
        ("loop_convert_fusion_3", "elementwise", False),
        ("Sigmoid_GPU_DT_HALF_DT_HALF_kernel", "elementwise", False),
        ("void tensorflow::functor::ShuffleInTensor3Simple<float>", "data movement", False),
        ("loop_add_fusion_1688", "elementwise", False),
        ("void tensorflow::ApplyAdamKernel<float>", "optimizer", False),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16", "attention", True),
        ("flash_fwd_kernel", "attention", False),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "collective", False),
        ("mystery", "other", False),
    ],
)
def test_kernels_are_told_by_their_names(tmp_path, name, kind, tensor_core):
    assert read(name, tmp_path) == (kind, tensor_core)
