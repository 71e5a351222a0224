"""Round trips to other workers: whose are measured, and what an unresponsive one changes."""

import inspect

import pytest

from keras_gpukit.distributed.worker_times import RoundTrips
from keras_gpukit.records import RoundTrip


class Network:
    """Answers after a known time by its own clock; tasks without one do not answer."""

    def __init__(self, **answers_s: float) -> None:
        self.answers_s = answers_s
        self.now_s = 0.0
        self.asked: list[str] = []

    def ask(self, task: str, timeout_s: float) -> None:
        self.asked.append(task)
        if task not in self.answers_s:
            self.now_s += timeout_s
            raise TimeoutError(task)
        self.now_s += self.answers_s[task]


def trips(index: int, network: Network, tasks=("a", "b", "c", "d")) -> RoundTrips:
    return RoundTrips(index, tasks, network.ask, lambda: network.now_s)


def test_the_next_two_workers_are_asked_around_the_ring():
    network = Network(a=0.001, b=0.002, c=0.004, d=0.008)
    measured = trips(2, network)
    measured.read()
    network.answers_s["d"] = 0.006
    measured.read()
    measured.read()
    assert set(network.asked) == {"d", "a"}
    assert [(each.peer, each.readings) for each in measured.record()] == [(0, 3), (3, 3)]
    assert [each.lowest_s for each in measured.record()] == pytest.approx([0.001, 0.006])
    assert measured.record()[1].median_s == pytest.approx(0.006)
    # Of two workers each asks the other alone, and one that does not answer once.
    measured = trips(1, Network(a=0.001, b=0.002), ("a", "b"))
    measured.read()
    assert measured.record() == (RoundTrip(0, pytest.approx(0.001), pytest.approx(0.001), 1),)
    network = Network(d=0.003)
    measured = trips(2, network)
    for _ in range(3):
        measured.read()
    assert network.asked.count("a") == 1
    assert network.asked.count("d") == 3
    assert [each.peer for each in measured.record()] == [3]


@pytest.mark.tensorflow
def test_tensorflow_still_has_the_question_under_its_private_name():
    from tensorflow.python.eager import context

    ask = context.Context.check_collective_ops_peer_health
    assert list(inspect.signature(ask).parameters) == ["self", "task", "timeout_in_ms"]
