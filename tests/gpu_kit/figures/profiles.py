"""Captures of 10 ms steps; made up."""

GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_nn_n_tilesize128x128x64"


def kernel(name: str = GEMM, mean_ms: float = 0.4, *, tensor_core: bool = True) -> dict:
    """A kernel that computes products."""
    return {
        "name": name,
        "kind": "matmul",
        "tensor_core": tensor_core,
        "share": 0.7,
        "mean_ms": mean_ms,
    }


CAST = {"name": "Cast", "kind": "elementwise", "tensor_core": False, "share": 0.3, "mean_ms": 0.1}


def capture(tensor_cores: float | None, **changes) -> dict:
    """A capture of matrix products."""
    return {
        "steps": 8,
        "steps_unknown_because": None,
        "incomplete_because": None,
        "problems": [],
        "step_ms": 10.0,
        "work_ms": 7.8,
        "parts_ms": {"device compute": 8.0, "kernel launch": 1.0, "idle": 1.0},
        "kinds_ms": {"matmul": 7.9, "other": 0.1},
        "tensor_core_fraction": tensor_cores,
        "kernels": [kernel(tensor_core=bool(tensor_cores))],
        "xprof": {"tensor_core_fraction": 0.0, "kernels_ms": {GEMM: 0.401}},
        **changes,
    }


NOTHING = capture(None, steps=0, step_ms=None, parts_ms={}, kinds_ms={}, kernels=[])
BFLOAT16 = "products/bfloat16"
GOOD = {
    "cost": {
        "first_by_hand_ms": [900.0, 80.0],
        "by_hand_ms": [[5.0, 60.0]] * 5,
        "profiler_ms": [2.0] * 5,
    },
    "products/float32": capture(0.0),
    "products/TF32": capture(0.97),
    BFLOAT16: capture(0.7, kernels=[kernel(), CAST]),
    "convolutional": capture(0.7, kinds_ms={"convolution": 5.0, "normalization": 3.0}),
    "transformer": capture(0.7),
}
FALSIFIED = {
    "cost": [{"cost": GOOD["cost"] | {"profiler_ms": [70.0] * 5}}],
    "steps": [
        {BFLOAT16: capture(0.98, steps=5)},
        {BFLOAT16: NOTHING},
        {BFLOAT16: capture(0.98, problems=["events were dropped"])},
        {BFLOAT16: capture(0.98, incomplete_because="no permission for counters")},
    ],
    "breakdown": [
        {BFLOAT16: capture(0.98, work_ms=5.0)},
        {BFLOAT16: capture(0.98, parts_ms={"device compute": 8.0})},
        {BFLOAT16: NOTHING},
    ],
    "kernels": [
        {BFLOAT16: NOTHING},
        {BFLOAT16: capture(0.98, kernels=[kernel(mean_ms=0.5)])},
        {BFLOAT16: capture(0.98, kernels=[kernel("another")])},
    ],
    "tensor_cores": [{"products/float32": capture(0.5)}, {BFLOAT16: capture(0.0)}],
    "kinds": [
        {"convolutional": NOTHING},
        {"transformer": capture(0.7, kinds_ms={"matmul": 5.0, "other": 3.0})},
    ],
}
UNJUDGED = {
    "tensor_cores": {BFLOAT16: NOTHING},
    "kinds": {"transformer": {"error": "it failed"}},
}
