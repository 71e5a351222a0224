"""What TensorFlow really has after `configure_gpus`, and what the guide on NaN shows of it."""

import re
from pathlib import Path

import pytest
from helpers import prepared
from helpers.processes import ROOT, environment

pytestmark = pytest.mark.tensorflow

CASES = sorted(
    path for path in (Path(__file__).parent / "cases").glob("*.py") if path.name != "stand_in.py"
)


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_tensorflow_has_what_was_asked(case):
    clean = {
        k: v for k, v in environment().items() if not k.startswith(("TF_", "CUDA_", "NVIDIA_"))
    }
    # Where there are real GPUs, the stand-ins are to be the only ones.
    prepared.run(case, env={**clean, "CUDA_VISIBLE_DEVICES": ""})


def test_the_examples_on_nan_run_in_order_and_print_what_the_guide_says(run_script):
    page = (ROOT / "docs/troubleshooting/nan-mixed-precision.md").read_text(encoding="utf-8")
    examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    unchanged = "assert all((a == b).all() for a, b in zip(before, model.get_weights()))\n"
    examples[1] += unchanged
    printed = run_script("\n".join(examples)).stdout
    for words in ("loss scale 0.03125", "normalized computes in float16"):
        assert f"{words}\n" in printed
        assert f"prints `{words}`" in page
    for words in ("/truediv", "dtype: <dtype: 'float16'>", "inferred user code"):
        assert words in printed
    first, last = re.search(r"loss ([\d.e-]+), then ([\d.e-]+)", printed).groups()
    assert float(last) < float(first) / 100
