"""The examples of the guides run as they stand."""

import re

import pytest
from helpers.processes import ROOT

pytestmark = pytest.mark.tensorflow

GUIDES = ("configure.md", "several-gpus.md", "fails-on-two-gpus.md", "loss-differs.md")
EXAMPLES = {
    f"{name}-{index}": example
    for name in GUIDES
    for index, example in enumerate(
        re.findall(
            r"```python\n(.*?)```",
            (ROOT / "docs" / "guides" / name).read_text(encoding="utf-8"),
            re.DOTALL,
        )
    )
}


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_the_example_runs(example, run_script):
    run_script(example)


def test_the_examples_on_nan_run_in_order_and_print_what_the_guide_says(run_script):
    page = (ROOT / "docs" / "guides" / "nan-mixed-precision.md").read_text(encoding="utf-8")
    examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    unchanged = "assert all((a == b).all() for a, b in zip(before, model.get_weights()))\n"
    examples[1] += unchanged
    printed = run_script("\n".join(examples)).stdout
    for words in ("loss scale 0.03125", "normalized computes in float16"):
        assert f"{words}\n" in printed
        assert f"prints `{words}`" in page
    for words in ("normalized_1/truediv", "dtype: <dtype: 'float16'>", "inferred user code"):
        assert words in printed
    first, last = re.search(r"loss ([\d.e-]+), then ([\d.e-]+)", printed).groups()
    assert float(last) < float(first) / 100
