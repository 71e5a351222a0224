"""The page of the evidence."""

import json
from dataclasses import replace

import pytest
from gpu_kit.figures.activity import GOOD, KINDS

from benchmarks.gpu.page import PAGE, page
from benchmarks.gpu.part import Outcome, Part, load_part
from benchmarks.gpu.results import FOLDER, outcomes, save


def result(part, measured, kind="gpu", small=False):
    device = {"kind": kind, "gpus": [{"name": "NVIDIA Test"}] if kind == "gpu" else []}
    device |= {"driver": "550.1", "cuda": "12.5.1"}
    device["versions"] = {"tensorflow": "2.21.0", "keras": "3.15.1"}
    made = {"part": part, "slice": "all", "status": "killed", "small": small, "code": "abc"}
    made |= {"date": "2026-01-31T10:00:00+00:00", "took_s": 60.0}
    return made | {"device": device, "measured": measured}


def test_the_page_is_up_to_date():
    assert page(FOLDER) == PAGE.read_text(), "run: python -m benchmarks.gpu.page"


@pytest.mark.parametrize("circumstances", [{"kind": "cpu"}, {"small": True}])
def test_without_a_run_on_a_gpu_everything_is_open(tmp_path, circumstances):
    save(tmp_path, result("activity", GOOD, **circumstances))
    written = page(tmp_path)
    assert "Nothing has run on a GPU yet" in written
    assert "| holds" not in written
    for claim in load_part("activity").claims:
        assert f"| {claim.expected} | open |" in written


def test_a_run_on_a_gpu_says_on_what_and_what_is_open(tmp_path):
    wrong = {"kinds": KINDS | {"nothing": KINDS["nothing"] | {"sm_active_percent": 99.0}}}
    save(tmp_path, result("activity", wrong))
    assert "2 held on NVIDIA Test, 1 were wrong, and" in page(tmp_path)
    assert "| **false**: Busy with bfloat16 98 %" in page(tmp_path)
    # Old measurements are judged by the judge of today.
    judged = {"outcomes": {"sms": {"holds": False, "evidence": "old"}}}
    save(tmp_path, result("activity", GOOD) | judged)
    written = page(tmp_path)
    assert "3 held on NVIDIA Test, 0 were wrong" in written
    assert "Not run there: stall," in written
    run = "Run: all (incomplete) on 2026-01-31 on NVIDIA Test, driver 550.1, TensorFlow 2.21.0"
    assert run in written
    assert "| holds: Busy with bfloat16 98 %" in written


def test_a_check_that_is_no_longer_kept_names_the_commit_that_has_it(tmp_path):
    claims = [["it rises", True, "By 2."], ["it falls", None, "Not measured."]]
    parts = {"gone": {"question": "Does it?", "claims": claims}, "activity": {"claims": claims}}
    settled = {"commit": "abcd1234", "parts": parts}
    (tmp_path / "settled.json").write_text(json.dumps(settled))
    save(tmp_path, result("gone", {}))
    written = page(tmp_path)
    assert written.count("| it rises | holds: By 2. Its check is at commit abcd1234. |") == 2
    assert "| [Does it?](#gone) | 1 | 0 | 1 |" in written


def test_a_correction_is_named_only_while_the_code_that_was_false_is_the_one_that_ran():
    part = Part("limits", "Is it?")
    part.claim("it is high", "all", name="low", corrected=("all:abc", "It rises."))(
        lambda row: Outcome(row["low"] > 1, "Low.")
    )

    def outcome(row, **circumstances):
        return outcomes(part, [result("limits", {"all": row}) | circumstances])["low"]

    assert outcome({"low": 1}) == Outcome(False, "Low.", corrected="It rises.")
    assert outcome({"low": 1}, code="new") == replace(outcome({"low": 1}), corrected="")
    assert outcome({"low": 2}) == Outcome(True, "Low.")
