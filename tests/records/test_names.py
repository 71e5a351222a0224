"""The names of tags, against the page that documents them."""

import re

from helpers.processes import ROOT

from keras_gpukit.records import names


def test_the_documented_tags_are_the_written_ones():
    table = (ROOT / "docs" / "reference" / "records.md").read_text().split("### run.jsonl")[0]
    documented = re.findall(r"^\| `([^`]+)` \|", table, flags=re.MULTILINE)
    gpu = [names.gpu_tag("<index>", figure) for figure in (*names.GPU_FIGURES, "throttled")]
    memory = [names.memory_tag("<device>", figure) for figure in names.MEMORY_FIGURES]
    others = [
        value
        for name, value in vars(names).items()
        if isinstance(value, str) and ("/" in value or name in ("SETUP", "PLACEMENT", "FINDINGS"))
    ]
    others = [tag for tag in others if not tag.startswith("/")]  # the module's own file
    assert sorted(documented) == sorted([*gpu, *memory, *others])
