"""The examples of the guide run as they stand."""

import re

import pytest
from helpers.processes import ROOT

pytestmark = pytest.mark.tensorflow

GUIDE = ROOT / "docs" / "guides" / "configure.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_the_example_runs(example, run_script):
    run_script(example)
