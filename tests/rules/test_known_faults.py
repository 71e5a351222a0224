"""Known faults of versions explain what a run shows, and nothing in versions without them."""

from dataclasses import replace

import pytest
from helpers.summaries import breakdown

from keras_gpukit import records
from keras_gpukit.rules.known_faults import KNOWN_FAULTS, ON_EPOCH_BEGIN, explained
from keras_gpukit.rules.whole_run.steady_growth import THIS_PROCESS

RUN = records.RunSummary(records.Environment({}))


def of(code, about="", *evidence):
    return records.Finding(code, "It ran out", "critical", evidence, ("Look.",), about=about)


def with_settings(**settings):
    return replace(RUN, environment=records.Environment({}, settings=settings))


RACE = replace(
    with_settings(**{ON_EPOCH_BEGIN: "sets what a.py:31, a.py:44 reads; workers=3"}),
    ended_by="IndexError in the input of step 3, in epoch 1",
    ended_kind="input",
    error_line="a.py:31",
)
WHERE = {"layer": "d", "layer_class": "Dense", "backward": True, "shape": (8, 9, 9)}
RAN_OUT = records.OutOfMemory("GPU:0", **WHERE)
DENSE = replace(RUN, out_of_memory=RAN_OUT)
WRITES = replace(
    with_settings(**{"TensorBoard.update_freq": "update_freq=100"}),
    input=records.InputRecord(
        "fit", breakdown=breakdown(20, callbacks_s=10, by_callback={"TensorBoard": 9.0})
    ),
)
COMPILED = replace(RUN, environment=records.Environment({}, jit_compile=True))
GENERATED = replace(
    RUN,
    input=records.InputRecord(
        "fit",
        pipeline=records.PipelineRecord((records.StageRecord("read", "generator", "python"),)),
    ),
)

# Thread, summary, finding, an affected and a fixed version of the package, of Python.
CASES = {
    "issues/23283": (RACE, of("ended-by-error"), "3.15.1", "3.16.0"),
    "issues/22823": (DENSE, of("out-of-memory"), "3.14.1", "3.15.0"),
    "pull/22357": (WRITES, of("slow-callbacks", "TensorBoard"), "3.14.1", "3.15.0"),
    "issues/64170": (
        COMPILED,
        of("memory-grows", THIS_PROCESS, records.Figure("traced_again", 40, "times")),
        "2.21.0",
        "2.14.0",
    ),
    "issues/65675": (GENERATED, of("memory-grows", THIS_PROCESS), "2.18.0", "2.21.0"),
}


def judged(thread, version=None, summary=None, finding=None, python="3.11.4"):
    fault = next(each for each in KNOWN_FAULTS if each.thread.endswith(thread))
    known, found, affected, _ = CASES[thread]
    summary, finding = summary or known, finding or found
    versions = {fault.package: version or affected, "python": python}
    environment = replace(summary.environment, versions=versions)
    return explained(finding, replace(summary, environment=environment))


def test_each_fault_has_a_case():
    assert sorted(each.thread.split("/", 5)[5] for each in KNOWN_FAULTS) == sorted(CASES)


@pytest.mark.parametrize("thread", CASES)
def test_a_fault_is_named_only_in_versions_that_have_it(thread):
    _, finding, affected, fixed = CASES[thread]
    found = judged(thread)
    assert found.title.startswith(f"{finding.title}: ")
    assert affected in found.title
    assert found.advice[0].endswith(f"/{thread})")
    assert found.advice[1:] == finding.advice
    assert len(found.actions) == 1
    assert judged(thread, fixed) is finding
    assert judged(thread, "a build of one's own") is finding


ELSEWHERE = replace(RACE, error_line="a.py:3")
IN_STEP = replace(RACE, ended_kind="error")
FORWARD = replace(DENSE, out_of_memory=replace(RAN_OUT, backward=False))
ATTENTION = replace(DENSE, out_of_memory=replace(RAN_OUT, layer_class="Attention"))
EACH_BATCH = replace(WRITES, environment=with_settings(update_freq="update_freq=1").environment)
KEPT = of("memory-grows", THIS_PROCESS, records.Figure("kept_in", 40, "B", "a list"))


@pytest.mark.parametrize(
    ("thread", "changes"),
    [
        ("issues/23283", {"summary": ELSEWHERE}),
        ("issues/23283", {"summary": IN_STEP}),
        ("issues/22823", {"summary": FORWARD}),
        ("issues/22823", {"summary": ATTENTION}),
        ("pull/22357", {"summary": EACH_BATCH}),
        ("issues/64170", {"summary": RUN}),
        ("issues/65675", {"finding": KEPT}),
        ("issues/65675", {"summary": RUN}),
        ("issues/65675", {"python": "3.10.12"}),
    ],
)
def test_a_fault_is_not_named_without_its_evidence(thread, changes):
    assert judged(thread, **changes) is (changes.get("finding") or CASES[thread][1])
