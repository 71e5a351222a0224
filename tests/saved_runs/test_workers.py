"""Records of several workers in one log folder are compared, and no others."""

import pytest
from helpers.recorded_runs import BEGAN_S, SUMMARY
from helpers.workers import LATE, four, write_worker

from keras_gpukit.saved_runs.log_folder import load_report
from keras_gpukit.saved_runs.worker_figures import compare_in_folder, figures_of

EVEN = four(2).members


def chief(report):
    return next(run for run in report.runs if run.worker and run.worker.index == 0)


def codes(run):
    return [each.code for each in run.summary.findings]


def test_the_chiefs_run_names_the_straggler_once_all_records_are_in_one_folder(tmp_path):
    for index in (0, 1, 3):
        write_worker(tmp_path, index)
    incomplete = chief(load_report(tmp_path))
    assert "straggler" not in codes(incomplete)
    reason = incomplete.summary.verdict.not_applicable["straggler"]
    assert "records of worker 2 are not" in reason or "worker 2" in reason
    write_worker(tmp_path, 2)
    report = load_report(tmp_path)
    assert codes(chief(report))[0] == "straggler"
    assert chief(report).summary.workers.members == LATE
    # The verdicts of the others are on themselves.
    assert all("straggler" not in codes(run) for run in report.runs if run != chief(report))


def test_records_of_earlier_runs_are_not_mixed_in(tmp_path):
    for began_s, members in ((BEGAN_S, EVEN), (BEGAN_S + 500, LATE), (BEGAN_S + 1000, EVEN)):
        for index in range(4):
            write_worker(tmp_path, index, members, began_s=began_s)
    runs = [run for run in load_report(tmp_path).runs if run.worker.index == 0]
    assert ["straggler" in codes(run) for run in runs] == [False, True, False]


def test_a_worker_that_was_killed_counts_with_what_it_wrote(tmp_path):
    for index in range(4):
        write_worker(tmp_path, index, summary=index != 2)
    workers = chief(load_report(tmp_path)).summary.workers
    assert [each.index for each in workers.members] == [0, 1, 2, 3]
    assert workers.members[2].compared == ()
    assert workers.members[2].step_time_s == pytest.approx(0.0375)


class Clock:
    """Seconds since the Unix epoch; something may happen while others sleep."""

    def __init__(self, now_s: float) -> None:
        self.now_s = now_s
        self.then: list = []

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        if self.then:
            self.then.pop(0)()


def compare(log_dir, clock):
    folder = log_dir / "gpukit"
    return compare_in_folder(folder, LATE[0], 4, BEGAN_S, now=clock, sleep=clock.sleep)


def test_the_chief_waits_for_records_that_are_about_to_end(tmp_path):
    for index in (1, 2, 3):
        write_worker(tmp_path, index, summary=index != 3)
    clock = Clock(BEGAN_S + 10)
    clock.then = [lambda: None, lambda: write_worker(tmp_path, 3)]
    compared = compare(tmp_path, clock)
    assert compared.members == LATE
    assert clock.now_s - BEGAN_S - 10 == pytest.approx(0.2)


def test_the_chief_waits_for_no_missing_record_and_some_seconds_for_one_that_never_ends(tmp_path):
    write_worker(tmp_path / "missing", 0)
    clock = Clock(BEGAN_S + 10)
    compared = compare(tmp_path / "missing", clock)
    assert compared.members == LATE[:1]
    assert "workers 1, 2, 3" in compared.unknown_because
    assert clock.now_s == BEGAN_S + 10
    for index in (1, 2, 3):
        write_worker(tmp_path, index, summary=False)
    clock = Clock(BEGAN_S + 9)
    compared = compare(tmp_path, clock)
    assert len(compared.members) == 4
    assert 4 < clock.now_s - BEGAN_S - 9 < 6


def test_examples_of_a_worker_are_its_rate_over_all_steps():
    assert figures_of(1, SUMMARY).examples == 1280 * 0.025 * 2400
    assert figures_of(1, SUMMARY).gpu_percent == 52.5
