"""Limits of NVIDIA's GPUs by their names: rates of dense products, and of memory."""

from __future__ import annotations

import re

from keras_gpukit.records.benchmark import Ceilings

# Dense figures of NVIDIA's data sheets and white papers; those marked "with sparsity" there are
# halved. Float64 is that of Tensor Cores where they have it. Tensor Cores add in float32, as
# TensorFlow's products do; GeForce cards are half as fast then. Links: docs/explanation/flops.md.
_COLUMNS = ("float64", "float32", "TF32", "float16", "bfloat16")
_CARDS: dict[str, tuple[tuple[float | None, ...], float]] = {
    # Pattern of the name: TFLOP/s by precision, None if it lacks one; GB/s.
    r"B200": ((37, 75, 1100, 2250, 2250), 7700),
    r"H200": ((67, 67, 494.5, 989.5, 989.5), 4800),
    r"H200 NVL": ((60, 60, 417.5, 835.5, 835.5), 4800),
    r"H100 80GB HBM3|H100 SXM5?( 80GB)?": ((67, 67, 494.5, 989.5, 989.5), 3350),
    r"H100 PCIe": ((51, 51, 378, 756, 756), 2000),
    r"H100 NVL": ((60, 60, 417.5, 835.5, 835.5), 3900),
    r"A100-SXM4-40GB|A100-PCIE-40GB": ((19.5, 19.5, 156, 312, 312), 1555),
    r"A100-SXM4-80GB": ((19.5, 19.5, 156, 312, 312), 2039),
    r"A100 80GB PCIe": ((19.5, 19.5, 156, 312, 312), 1935),
    r"A30": ((10.3, 10.3, 82, 165, 165), 933),
    r"A10": ((None, 31.2, 62.5, 125, 125), 600),
    r"A10G": ((None, 35, 35, 70, 70), 600),
    r"A40": ((None, 37.4, 74.8, 149.7, 149.7), 696),
    r"L4": ((None, 30.3, 60, 121, 121), 300),
    r"L40": ((None, 90.5, 90.5, 181, 181), 864),
    r"L40S": ((None, 91.6, 183, 362, 362), 864),
    r"T4": ((None, 8.1, None, 65, None), 320),
    r"V100-SXM[23]-\d+GB(-LS)?": ((7.8, 15.7, None, 125, None), 900),
    r"V100-PCIE-\d+GB": ((7, 14, None, 112, None), 900),
    r"V100S-PCIE-32GB": ((8.2, 16.4, None, 130, None), 1134),
    r"P100-PCIE-16GB": ((4.7, 9.3, None, 18.7, None), 732),
    r"P100-SXM2-16GB": ((5.3, 10.6, None, 21.2, None), 732),
    r"RTX A6000": ((None, 38.7, 77.4, 154.8, 154.8), 768),
    r"RTX 6000 Ada Generation": ((None, 91.1, 182.1, 364.2, 364.2), 960),
    r"RTX 3080": ((None, 29.8, 29.8, 59.5, 59.5), 760),
    r"RTX 3090": ((None, 35.6, 35.6, 71, 71), 936),
    r"RTX 3090 Ti": ((None, 40, 40, 80, 80), 1008),
    r"RTX 4080": ((None, 48.7, 48.7, 97.5, 97.5), 717),
    r"RTX 4090": ((None, 82.6, 82.6, 165.2, 165.2), 1008),
    r"RTX 5090": ((None, 104.8, 104.8, 209.5, 209.5), 1792),
}
_BRAND = re.compile(r"^(NVIDIA )?(GeForce |Tesla )?")


def data_sheet(name: str) -> Ceilings | None:
    """Returns the figures of a GPU; None for one that is not known, and for a part of one (MIG).

    Args:
        name: Name as NVML or TensorFlow reports it, such as "NVIDIA A100-SXM4-80GB".
    """
    model = _BRAND.sub("", name)
    for pattern, (tflops, gb_per_s) in _CARDS.items():
        if re.fullmatch(pattern, model):
            known = zip(_COLUMNS, tflops, strict=True)
            return Ceilings({name: each for name, each in known if each is not None}, gb_per_s)
    return None
