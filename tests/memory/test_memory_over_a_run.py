"""Real runs whose memory grows with each epoch are found; those whose buffers fill up are not."""

import json
import re
from pathlib import Path

import pytest
from helpers import prepared
from helpers.processes import environment

CASE = Path(__file__).parent / "cases" / "grows.py"
KEPT_BYTES = 4 * 2**20
EPOCHS = 16


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    variables = environment(**prepared.COUNTING, TF_CPU_BFC_MEM_LIMIT_IN_MB="192")
    done = prepared.run(CASE, tmp_path_factory.mktemp("logs"), env=variables, timeout=300)
    return json.loads(done.stdout.splitlines()[-1])


def test_tensors_that_a_callback_keeps(found):
    finding = found["a callback keeps tensors"]
    title = "Memory of CPU:0 grows with each epoch: CPU:0 is full after about (\\d+) more epochs"
    more = int(re.match(title, finding["title"])[1])
    # A run that goes on ends there, but for the last pieces that are too small to use.
    assert EPOCHS + more == pytest.approx(found["full after epochs"], abs=2)
    assert finding["evidence"]["each epoch adds"] == pytest.approx(KEPT_BYTES, rel=0.05)
    assert finding["evidence"]["kept in Keeper.outputs"] == EPOCHS * KEPT_BYTES
    assert finding["advice"].startswith("Keeper.outputs keeps more")
    # The peak of the first step is kept apart.
    first, last, later = found["a callback keeps tensors"]["peaks"]
    assert 0 < first <= last - 10 * KEPT_BYTES
    assert later == last


def test_lists_that_a_function_encloses_or_a_loop_of_fits_appends_to(found):
    finding = found["a lambda keeps arrays"]
    assert finding["title"].startswith("Memory of this process grows with each epoch")
    assert finding["evidence"]["each epoch adds"] == pytest.approx(KEPT_BYTES, rel=0.2)
    assert finding["evidence"]["kept in LambdaCallback.kept"] == EPOCHS * KEPT_BYTES
    finding = found["each fit of one epoch keeps"]
    assert finding["title"].startswith("Memory of this process grows with each fit")
    assert finding["evidence"]["each fit adds"] == pytest.approx(KEPT_BYTES, rel=0.2)
    # The last fit was judged before the loop appended to it for the last time.
    assert finding["evidence"]["kept in SCRIPTS_LIST of grows.py"] == ((EPOCHS - 1) * KEPT_BYTES)
    assert finding["evidence"]["items of SCRIPTS_LIST"] == EPOCHS - 1
    assert finding["epochs"] == [1]


def test_a_run_that_only_fills_its_buffers(found):
    finding = found["cache, shuffle, prefetch"]
    assert finding["judged"]
    assert finding["title"] is None
