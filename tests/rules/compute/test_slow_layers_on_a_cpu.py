"""Captures of a CPU with a slow layer: what the verdict says first, with XLA and without it.

`tests/profiling/cases/slow_layers.py` has the models.
"""

import lzma

import pytest
from helpers.processes import TESTS

from keras_gpukit.profiling import read_profile
from keras_gpukit.rules.verdict import of_profile

SLOW = TESTS / "profiling/cases/slow"
FIRST = {
    "normalization": "of the computation is batch normalization, mostly elementwise",
    "float64": "of the computation is precise, mostly matmul",
    "embedding": "The optimizer updates all rows of an embedding in each step (embedding): 9",
    "products": "of the computation is products, mostly ",
}
ADVICE = {
    "normalization-graph": "compile(jit_compile=True)",
    "normalization-jit": "Look at batch normalization first: its dtype",
    "float64": "Look at precise first: its dtype",
    "embedding": "An optimizer without moments",
    "products-graph": "products: one batched product in place of 323 operations",
    "products-jit": "products: one batched product in place of 321 operations",
}


@pytest.mark.parametrize("how", ["graph", "jit"])
@pytest.mark.parametrize("name", FIRST)
def test_the_slow_layer_comes_first(name, how, tmp_path):
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(lzma.decompress((SLOW / f"{name}-{how}.xplane.pb.xz").read_bytes()))
    profile = read_profile(path)
    summary = of_profile(profile)
    found = summary.findings[0]
    assert FIRST[name] in found.title
    assert found.advice[0].startswith(ADVICE.get(name) or ADVICE[f"{name}-{how}"])
    assert (found.severity == "info") == found.advice[0].startswith("Look at ")
    assert summary.environment.jit_compile == (how == "jit")
    layers_s = sum(each.time_s for each in profile.layers)
    assert layers_s == pytest.approx(profile.parts_s["host compute"], rel=0.01)
