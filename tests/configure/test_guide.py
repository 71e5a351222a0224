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
