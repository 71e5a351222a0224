"""Whether a step's time goes to what Tensor Cores compute: matrix products and convolutions."""

from __future__ import annotations

import re
from dataclasses import dataclass

from keras_gpukit.records.profile import Kind
from keras_gpukit.records.run import RunSummary

PRODUCT_KINDS: tuple[Kind, ...] = ("matmul", "convolution", "attention")
_TYPES = re.compile(r"matmul|conv[123]d|einsum|cudnnrnn", re.I)


@dataclass(frozen=True)
class Products:
    """Shares of the steps' own time, their input wait left out, 0 to 1.

    Attributes:
        products: Share in kernels that Tensor Cores can speed up.
        others: Share in other kernels.
    """

    products: float
    others: float


def products_of(summary: RunSummary) -> Products | None:
    """Returns what the run's profile shows of products; None without a profile of a GPU's steps."""
    profile = summary.profile
    if profile is None or not profile.devices or not profile.step_time_s:
        return None
    own_s = profile.step_time_s - profile.parts_s.get("input wait", 0.0)
    products_s = sum(profile.kinds_s.get(kind, 0.0) for kind in PRODUCT_KINDS)
    others_s = sum(profile.kinds_s.values()) - products_s
    return Products(products_s / own_s, others_s / own_s) if own_s > 0 else None


def has_products(summary: RunSummary) -> bool | None:
    """Returns whether the step has products or convolutions at all; None if unknown."""
    record = summary.operations
    if record is None or not record.operations:
        return None
    return any(_TYPES.search(type_) for types in record.operations.values() for type_ in types)
