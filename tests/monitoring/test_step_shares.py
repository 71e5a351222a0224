"""Which steps are kept for a comparison with other workers, and what of them."""

import pytest

from keras_gpukit.monitoring.worker_watch import FIRST_STEPS, MOST_STEPS, StepShares


class Worker:
    """Steps of 10 ms, of which 4 ms are spent in collectives, by clocks of its own."""

    def __init__(self, **settings) -> None:
        self.now_s = self.in_collectives_s = 0.0
        self.readings = 0
        self.shares = StepShares(self._read, now=lambda: self.now_s, **settings)
        self.step = self.shares.wrap(self._step)

    def _read(self):
        self.readings += 1
        return self.in_collectives_s

    def _step(self, batches):
        self.now_s += 0.010
        self.in_collectives_s += 0.004
        return batches

    def run(self, steps, between_s=0.0):
        for _ in range(steps):
            self.step("batch")
            self.now_s += between_s
        return self.shares.steps


def test_a_step_lasts_until_the_next_one_begins():
    steps = Worker(first_step=100).run(20, between_s=0.002)
    assert [each.step for each in steps] == list(range(101 + FIRST_STEPS, 120))
    assert all(each.duration_s == pytest.approx(0.012) for each in steps)
    assert all(each.busy_s == pytest.approx(0.008) for each in steps)
    # Of several steps in an execution each has its part.
    steps = Worker(steps_per_execution=4).run(20)
    assert steps[0].duration_s == pytest.approx(0.0025)
    assert {each.step % 4 for each in steps} == {0}
    # Without collectives nothing is known.
    idle = StepShares(lambda: 0.0, now=iter(range(1000)).__next__)
    step = idle.wrap(lambda batches: None)
    for _ in range(20):
        step(None)
    assert idle.steps == ()


def test_what_comes_between_epochs_is_no_step():
    worker = Worker()
    worker.run(10)
    worker.shares.pause()
    worker.now_s += 60.0
    steps = worker.run(10)
    assert max(each.duration_s for each in steps) == pytest.approx(0.010)
    assert 10 not in [each.step for each in steps]


def test_long_runs_keep_steps_from_begin_to_end_and_all_workers_the_same():
    one, other = Worker(), Worker()
    kept = one.run(5_000)
    assert one.readings < 2_500  # in a long run, at few of its steps
    other.run(50)
    other.shares.pause()  # as for a checkpoint, on one worker
    others = other.run(4_950)
    assert MOST_STEPS / 2 <= len(kept) <= MOST_STEPS
    numbers = [each.step for each in kept]
    assert numbers[0] < 100
    assert numbers[-1] > 4_900
    assert {each.step for each in others} | {50} >= set(numbers)
