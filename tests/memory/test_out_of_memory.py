"""A real out-of-memory error has a note that is right, and begins the report of the dead run."""

import json
import re
from pathlib import Path

import pytest
from helpers import prepared
from helpers.processes import environment
from helpers.recorded_runs import without_lines

from keras_gpukit.saved_runs.log_folder import load_report

CASE = Path(__file__).parent / "cases" / "runs_out.py"
MIB = 2**20
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("logs")


def run(folder: Path, *mode: str) -> tuple[str, str]:
    """Output and errors; the latter go to a file, from which the allocator's log is read."""
    variables = environment(**prepared.COUNTING, TF_CPU_BFC_MEM_LIMIT_IN_MB="96")
    paths = folder / "output", folder / "errors"
    with paths[0].open("wb") as output, paths[1].open("wb") as errors:
        files = {"stdout": output.fileno(), "stderr": errors.fileno()}
        process = prepared.Prepared(CASE, folder, *mode, env=variables, **files)
    try:
        process.wait(300)
    finally:
        process.kill()
    output, errors = (path.read_text(errors="replace") for path in paths)
    return output, errors


@pytest.fixture(scope="module")
def found(folder):
    output, errors = run(folder)
    assert output, errors[-3000:]
    return json.loads(output.splitlines()[-1])


@pytest.mark.parametrize("mode", ["graph", "eager"])
def test_the_note_names_layer_tensor_and_figures(found, mode):
    report = found[mode]
    assert report["type"] == "ResourceExhaustedError"
    assert "OOM when allocating tensor with shape[512,32,32,64]" in report["message"]
    assert report["layer"] == "second"
    assert report["shape"] == [512, 32, 32, 64]
    assert report["asked"] == 128 * MIB
    assert report["limit"] == 96 * MIB
    assert report["batch_size"] == 512
    assert len(report["notes"]) == 1
    assert "Training: layer 'second'" in report["notes"][0]
    assert f"batch_size={report['suggested']}: predicted to need at most" in report["notes"][0]
    assert report["suggested"] == report["predicted"]
    assert report["first_finding"] == "out-of-memory"


def test_a_validation_is_named_with_its_loss_its_line_and_its_own_batch_size(found):
    report = found["validation"]
    assert re.fullmatch(
        r"Validation ran out of memory on CPU:0: the loss 'pairs' \([\w/]*runs_out.py:\d+\) asked "
        r"for \[8192, 8192\], 256 MiB; the batch has 8,192 examples",
        report["title"],
    )
    assert report["advice"][0].startswith("fit(validation_batch_size=32): training's batches")
    assert re.search(r"Validation: the loss 'pairs' \([\w/]*runs_out.py:", report["note"])
    assert "in a batch of 8,192" in report["note"]


def test_an_example_that_makes_its_batch_far_longer_than_those_before_is_named(found):
    assert found["long example"].endswith(
        "the batch has 8 examples, of a length (3,000) that varies; the batches before did fit"
    )


@pytest.mark.long
def test_of_a_step_compiled_as_a_whole_the_block_is_known(folder):
    _, errors = run(folder, "jit")
    assert "XLA compiled as a whole, asked for" in errors
    record = load_report(folder / "jit").runs[0].summary.out_of_memory
    assert record.shape is None
    assert record.state.asked_bytes > 128 * MIB
    assert record.prediction.largest[0].layer == "second"


def test_the_report_of_a_dead_run_begins_with_it_even_without_a_summary(found, folder):
    run = load_report(folder / "graph").runs[0]
    assert run.state == "interrupted"
    assert run.summary.findings[0].code == "out-of-memory"
    assert run.summary.out_of_memory.layer == "second"
    without_lines(folder / "graph", "summary")
    assert load_report(folder / "graph").runs[0].summary.findings[0].code == "out-of-memory"
