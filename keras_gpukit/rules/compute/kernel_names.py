"""Dtypes and kinds in the names of kernels and layers."""

from __future__ import annotations

import re

from keras_gpukit.records.profile import LayerProfile

_DTYPES = {
    "float64": re.compile(r"double|(?<![a-z0-9])f64|dgemm|(?<![a-z0-9])d\d+gemm", re.I),
    "bfloat16": re.compile(r"bfloat16|bf16", re.I),
    "float16": re.compile(r"half|(?<![a-z0-9b])f16", re.I),
    "float32": re.compile(r"float|f32|sgemm|main_kernel", re.I),
}


def dtype_of(kernel: str) -> str:
    """Returns the dtype in a kernel's name, the rarer one of two; "" if it names none."""
    return next((name for name, pattern in _DTYPES.items() if pattern.search(kernel)), "")


_NUMBER = re.compile(r"(_\d+)+$")
_SHORT = {"bn": "batch normalization", "ln": "layer normalization"}


def plain_name(path: str) -> str:
    """Returns what kind of layer a path is of: "batch normalization" for "functional/bn_3"."""
    name = _NUMBER.sub("", path.rsplit("/", 1)[-1])
    return _SHORT.get(name.rsplit("_", 1)[-1], name.replace("_", " "))


_ROLES = {
    "optimizer": "the optimizer's update of the weights",
    "loss": "the loss",
    "metrics": "the metrics",
    "other": "",
}


def group_of(layer: LayerProfile) -> str:
    """Returns the kind of a layer, or the part of the step it stands for; "" if unknown."""
    return plain_name(layer.path) if layer.role == "layer" else _ROLES[layer.role]
