"""The page of the evidence, and the boxes that sum it up."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from benchmarks.gpu.page import box, documents, page, with_box
from benchmarks.gpu.part import Claim, Outcome, Part, load_part
from benchmarks.gpu.results import outcomes, save


def result(part, measured, kind="gpu", small=False):
    return {
        "part": part,
        "slice": "doctor",
        "status": "killed",
        "date": "2026-01-31T10:00:00+00:00",
        "took_s": 60.0,
        "small": small,
        "code": "abc",
        "device": {
            "kind": kind,
            "gpus": [{"name": "NVIDIA Test"}] if kind == "gpu" else [],
            "driver": "550.1",
            "cuda": "12.5.1",
            "versions": {"tensorflow": "2.21.0", "keras": "3.15.1"},
        },
        "measured": measured,
    }


DOCTOR = {"doctor": {"exit_code": 0, "said": "550.1", "driver": "550.1"}}


def test_page_and_boxes_are_up_to_date():
    stale = [path.name for path, text in documents().items() if path.read_text() != text]

    assert not stale, "run: python -m benchmarks.gpu.page"


@pytest.mark.parametrize("circumstances", [{"kind": "cpu"}, {"small": True}])
def test_without_a_run_on_a_gpu_everything_is_open(tmp_path, circumstances):
    save(tmp_path, result("setup", DOCTOR, **circumstances))

    assert "Nothing has run on a GPU yet" in box(tmp_path, "there.md")
    written = page(tmp_path)
    assert "| holds" not in written
    for claim in load_part("setup").claims:
        assert f"| {claim.expected} | open |" in written


def test_a_run_on_a_gpu_says_on_what_and_what_is_open(tmp_path):
    wrong = DOCTOR["doctor"] | {"exit_code": 1}
    save(tmp_path, result("setup", {"doctor": wrong}))
    assert "0 held on NVIDIA Test, 1 were wrong, and" in page(tmp_path)
    assert "| **false**: Exit code 1" in page(tmp_path)

    save(tmp_path, result("setup", DOCTOR))
    summary, written = box(tmp_path, "there.md"), page(tmp_path)
    assert "1 held on NVIDIA Test, 0 were wrong" in summary
    assert "Not run there: stall," in summary
    assert "[the evidence](there.md)" in summary
    run = "Run: doctor (incomplete) on 2026-01-31 on NVIDIA Test, driver 550.1, TensorFlow 2.21.0"
    assert run in written
    assert "| holds: Exit code 0" in written
    assert "| open: growth was not measured |" in written


def test_a_correction_is_named_only_while_the_code_that_was_false_is_the_one_that_ran():
    claim = Claim("low", "it is high", lambda row: Outcome(row["low"] > 1, "Low."), ("all",))
    part = Part("limits", "Is it?", {}, (replace(claim, corrected=("doctor:abc", "It rises.")),))

    def outcome(row, **circumstances):
        return outcomes(part, [result("limits", {"all": row}) | circumstances])["low"]

    assert outcome({"low": 1}) == Outcome(False, "Low.", corrected="It rises.")
    assert outcome({"low": 1}, code="new").corrected == ""
    assert outcome({"low": 2}) == Outcome(True, "Low.")


def test_old_measurements_are_judged_by_the_judge_of_today(tmp_path):
    old = result("setup", DOCTOR) | {"outcomes": {"doctor": {"holds": False, "evidence": "old"}}}
    (tmp_path / "setup.doctor.json").write_text(json.dumps(old))

    assert "| holds: Exit code 0" in page(tmp_path)


def test_a_box_replaces_what_is_between_its_markers():
    text = "before\n<!-- GPU evidence -->\nold\n<!-- /GPU evidence -->\nafter\n"

    assert with_box(text, "new\n") == text.replace("old", "new")
    with pytest.raises(ValueError, match=r"one pair of markers. Received: 0 pairs"):
        with_box("no markers", "new")
