"""Which changes are kept, in which order they are tried, and what becomes of those that fail."""

import itertools
from dataclasses import replace

import pytest

from keras_gpukit.errors import TrialError
from keras_gpukit.records import Change, Finding, Promise, Saving
from keras_gpukit.reports.searches import speedup_view as render
from keras_gpukit.reports.terminal import as_text
from keras_gpukit.tuning.measured_fit import Ready, TrialFailedError
from keras_gpukit.tuning.processes import OwnProcess
from keras_gpukit.tuning.speedup_search import SpeedupTrials
from keras_gpukit.tuning.training_changes import TrainingChange, batch_size

JIT = TrainingChange("jit", "compile the steps with XLA", compiled={"jit_compile": True})
STEPS = TrainingChange("steps-per-execution", "run 8 steps", compiled={"steps_per_execution": 8})
INPUT = TrainingChange("input", "tune the input", tunes_input=True)
LOSSES = tuple((float(examples), 2.0) for examples in range(10, 110, 10))


class Process(OwnProcess):
    """A process that answers from a script, and its connection."""

    alive = 0

    def __init__(self, *replies):
        self.replies, self.connection = itertools.chain(*replies), self
        Process.alive += 1
        self.is_open = True

    def poll(self, seconds):
        return True

    def send(self, seconds):
        pass

    def recv(self):
        reply = next(self.replies)
        if isinstance(reply, BaseException):
            raise reply
        return reply

    def ended(self):
        return -9, "one line\nthe last line\n"

    def close(self):
        assert self.is_open
        Process.alive -= 1
        self.is_open = False


def ready(changes, loss=2.0, **fields):
    losses = LOSSES if not changes else ((30.0, loss),)
    lines = tuple(Change("", each.name) for each in changes)
    return Ready(1.0, losses, "examples/s", lines=lines, **fields)


def training(rates, *, proposals, losses=None, failing=None, **fields):
    """Returns what starts processes whose rates are known, and the names of what was started."""
    started = []

    def start(changes, examples):
        name = " + ".join(each.name for each in changes)
        started.append(name)
        if failing and name in failing:
            return Process([failing[name]])
        if not changes:
            first = ready((), proposals=proposals, **fields)
        else:
            assert examples == LOSSES[2][0]
            first = ready(changes, (losses or {}).get(name, 2.0))
        factor = rates.get(name, 1.0)
        noise = itertools.cycle((0.999, 1.0, 1.001))
        return Process([first], ((100 * factor * each, 2.0) for each in noise))

    return start, started


def tried(start, *, seconds=600.0, asked=(), recorded=()):
    options = {"seconds": seconds, "tolerance": 0.05, "recorded": recorded}
    trials = SpeedupTrials(start, show_progress=lambda *_: None, **options)
    found = trials.run("train.py", asked)
    assert Process.alive == 0
    return found


def kept(found):
    return {each.change: each.kept for each in found.trials}


def shown(found):
    return " ".join(as_text(render(found)).split())


def test_the_best_together_is_tried_last_and_named_first():
    rates = {"jit": 2.0, "steps-per-execution": 1.5, "jit + steps-per-execution": 2.6}
    start, started = training(rates, proposals=(STEPS, JIT, INPUT))
    found = tried(start)
    assert started == ["", "input", "jit", "steps-per-execution", "jit + steps-per-execution"]
    both = "jit + steps-per-execution"
    assert kept(found) == {"input": False, "jit": True, "steps-per-execution": True, both: True}
    assert found.best.change == both
    assert found.best.gain == pytest.approx(2.6, rel=0.01)
    assert found.best.rate.median == pytest.approx(260.0, rel=0.01)
    text = shown(found)
    assert "Fastest: compile the steps with XLA + run 8 steps: 2.60×" in text
    assert text.index("+ jit") < text.index("+ steps-per-execution")
    slower, _ = training({**rates, both: 1.6}, proposals=(STEPS, JIT))
    assert tried(slower).best.change == "jit"  # faster than with the other one
    # The rates shown agree with the gain, though the machine became slower.
    start, _ = training({"jit": 2.0}, proposals=(JIT,))
    found = tried(start)
    slower = replace(found, rate=replace(found.rate, median=60.0))
    assert "60 examples/s as it is. Fastest: compile the steps with XLA: 2.00×" in shown(slower)
    assert "120 examples/s." in shown(slower)


def test_where_nothing_helps_it_says_so():
    start, _ = training({"jit": 1.02}, proposals=(JIT, INPUT))
    found = tried(start)
    assert found.best is None
    said = "100 examples/s as it is; no change was found that makes it faster."
    assert said in shown(found)
    # An input that no change makes faster does not count as not measured.
    failing = {"input": TrialFailedError("no change made the input faster")}
    start, _ = training({}, proposals=(INPUT,), failing=failing)
    said = shown(tried(start))
    assert "- input: no change made the input faster." in said
    assert "not measured" not in said
    # A change that changes the loss is not kept.
    start, _ = training({"jit": 2.0}, proposals=(JIT,), losses={"jit": 2.4})
    found = tried(start)
    assert found.best is None
    assert found.trials[0].note == "changes the loss: 20 % higher after the same examples"
    assert found.trials[0].gain == pytest.approx(2.0, rel=0.01)


def test_a_trial_that_fails_is_a_row_with_its_reason_and_the_others_go_on():
    failing = {"input": TrialFailedError("no change made the input faster"), "jit": EOFError()}
    rates, proposals = {"steps-per-execution": 2.0}, (INPUT, JIT, STEPS)
    found = tried(training(rates, proposals=proposals, failing=failing)[0])
    notes = {each.change: each.note for each in found.trials}
    assert notes["input"] == "no change made the input faster"
    assert notes["jit"] == "its process ended with code -9: the last line"
    assert found.best.change == "steps-per-execution"


def test_two_that_do_not_fit_into_memory_together_are_measured_in_turn():
    first = iter([TrialFailedError("no memory for a tensor", memory=True)])
    start, started = training({"jit": 2.0}, proposals=(JIT,))

    def with_little_memory(changes, examples):
        if Process.alive and (failure := next(first, None)):
            return Process([failure])
        assert Process.alive == 0  # no two processes at the same time
        return start(changes, examples)

    def one_at_a_time(changes, examples):
        return with_little_memory(changes, examples) if changes else start(changes, examples)

    found = tried(one_at_a_time)
    assert found.best.change == "jit"
    assert started.count("jit") >= 4


def test_larger_batches_are_tried_as_long_as_they_gain():
    rates = {"batch-size": 2.0}
    start, started = training(rates, proposals=(batch_size(32, 1024),))
    found = tried(start)
    # 128 gains, 512 is no faster than 128.
    assert started == ["", "batch-size", "batch-size"]
    assert found.best.description == "128 examples per batch"


def test_findings_decide_the_order_and_their_promises_are_compared_with_what_is_measured():
    promises = (Promise("tiny-steps", 1.0, 1.8),)
    rates, proposals = {"steps-per-execution": 1.5}, (INPUT, JIT, STEPS)
    start, started = training(rates, proposals=proposals, promises=promises)
    found = tried(start, recorded=(Promise("input-bound", 1.1, None),))
    assert started[1] == "steps-per-execution"
    text = shown(found)
    assert "tiny-steps, by steps-per-execution: promised up to 1.80×, measured 1.50×" in text
    assert "input-bound, by input: promised 1.10× or more, measured 1.00×" in text


def test_only_what_is_asked_for_is_tried():
    precision = TrainingChange("mixed-precision", "16 bits", note="slow here", by_default=False)
    start, started = training({}, proposals=(INPUT, JIT, precision))
    assert kept(tried(start)) == {"input": False, "jit": False, "mixed-precision": False}
    assert "mixed-precision" not in started
    started.clear()
    found = tried(start, asked=("mixed-precision", "no-jit"))
    assert started == ["", "mixed-precision"]
    assert found.trials[1].note == "this training is so already"


def test_what_there_is_no_time_for_is_a_row_too(monkeypatch):
    start, started = training({"jit": 2.0}, proposals=(INPUT, JIT, STEPS))
    found = tried(start, seconds=1e-9)
    assert started == ["", "input"]
    assert [each.note for each in found.trials[1:]] == ["time ran out"] * 2
    assert found.ending == "time ran out"
    # Time is kept for changes together, but only once one gains.
    monkeypatch.setattr("keras_gpukit.tuning.speedup_search.RESERVE", 1.0)
    start, started = training({"jit": 2.0}, proposals=(INPUT, JIT, STEPS))
    assert tried(start).ending == "time ran out"
    assert started == ["", "input", "jit"]


def test_an_interrupt_keeps_what_is_known():
    start, _ = training({"jit": 2.0}, proposals=(JIT, STEPS))

    def interrupted(changes, examples):
        if changes == [STEPS]:
            raise KeyboardInterrupt
        return start(changes, examples)

    found = tried(interrupted)
    assert found.ending == "interrupted"
    assert found.best.change == "jit"
    # A training that cannot be measured is an error.
    failing = {"": TrialFailedError("the script called no fit()")}
    start, _ = training({}, proposals=(), failing=failing)
    with pytest.raises(TrialError, match="cannot be measured: the script called no fit"):
        tried(start)


SAVING = Saving(1.0, 2.0, 10.0, "wait")


def finding(code, severity="warning", saving=SAVING):
    return Finding(code, f"{code} is slow", severity, (), (f"fix {code}",), saving)


def test_the_first_costly_finding_that_no_change_helped_is_left_to_the_user():
    passed_over = finding("memory-grows", saving=None), finding("dominant-layer", "info")
    costly = (finding(code) for code in ("launch-bound", "input-bound", "slow-callbacks"))
    findings = (*passed_over, *costly)
    helps = {"jit": 2.0}
    start, _ = training(helps, proposals=(JIT, INPUT), findings=findings)
    found = tried(start)
    assert found.by_hand == findings[3]  # `jit` helped launch-bound, `input` gained nothing
    said = "To change by hand: input-bound is slow (input-bound). Next: fix input-bound."
    assert said in shown(found)
    start, _ = training(helps, proposals=(JIT, INPUT), findings=findings)
    assert tried(start, asked=("jit",)).by_hand == findings[4]  # `input` may help
    start, _ = training({}, proposals=(JIT,), findings=findings[:2])
    assert tried(start).by_hand is None
