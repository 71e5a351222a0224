"""Processes wait for each other, with a limit; and how long they take to answer."""

import inspect
import socket
import threading

import pytest
from helpers.clusters import free_addresses

from keras_gpukit.distributed.launching.workers import REUSE, address_of, reserved_ports
from keras_gpukit.distributed.rendezvous import answers, wait_for_tasks
from keras_gpukit.distributed.worker_times import RoundTrips
from keras_gpukit.errors import WorkerError
from keras_gpukit.records import RoundTrip


def test_a_task_that_never_comes_is_named_after_the_given_time_and_so_is_a_port_in_use():
    own, there, missing = free_addresses(3)
    host, port = there.split(":")
    late = rf"worker 2 at {missing} did not answer within 0\.5 s"
    used = rf"cannot listen at its own address, {there}.*uses the port"
    with socket.create_server((host, int(port))):
        with pytest.raises(WorkerError, match=late) as e:
            wait_for_tasks(own, {"worker 1": there, "worker 2": missing}, 0.5)
        with pytest.raises(WorkerError, match=used):
            wait_for_tasks(there, {}, 1)
    assert there not in str(e.value)


def test_tasks_that_wait_for_each_other_meet_and_leave_their_ports_free():
    addresses = dict(zip(("worker 0", "worker 1", "worker 2"), free_addresses(3), strict=True))
    failures = []

    def meet(name):
        others = {each: at for each, at in addresses.items() if each != name}
        host, _, port = addresses[name].rpartition(":")
        try:
            wait_for_tasks(addresses[name], others, 120)
            # As TensorFlow's server does at once, for those that still look for this one.
            servers.append(socket.create_server((host, int(port))))
        except Exception as error:
            failures.append(error)

    servers = []
    threads = [threading.Thread(target=meet, args=(name,)) for name in addresses]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(180)
    assert failures == []
    assert all(answers(address) for address in addresses.values())
    for server in servers:
        server.close()


def test_a_port_that_the_launcher_keeps_is_listened_at(monkeypatch):
    with reserved_ports(1) as [port]:
        own = address_of(port)
        with pytest.raises(WorkerError, match="cannot listen"):
            wait_for_tasks(own, {}, 1)
        for name, value in REUSE.items():
            monkeypatch.setenv(name, value)
        wait_for_tasks(own, {}, 1)


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
    measured.ask_peers()
    network.answers_s["d"] = 0.006
    measured.ask_peers()
    measured.ask_peers()
    assert set(network.asked) == {"d", "a"}
    assert [(each.peer, each.readings) for each in measured.per_peer()] == [(0, 3), (3, 3)]
    assert [each.lowest_s for each in measured.per_peer()] == pytest.approx([0.001, 0.006])
    assert measured.per_peer()[1].median_s == pytest.approx(0.006)
    # Of two workers each asks the other alone, and one that does not answer once.
    measured = trips(1, Network(a=0.001, b=0.002), ("a", "b"))
    measured.ask_peers()
    assert measured.per_peer() == (RoundTrip(0, pytest.approx(0.001), pytest.approx(0.001), 1),)
    network = Network(d=0.003)
    measured = trips(2, network)
    for _ in range(3):
        measured.ask_peers()
    assert network.asked.count("a") == 1
    assert network.asked.count("d") == 3
    assert [each.peer for each in measured.per_peer()] == [3]


@pytest.mark.tensorflow
def test_tensorflow_still_has_the_question_under_its_private_name():
    from tensorflow.python.eager import context

    ask = context.Context.check_collective_ops_peer_health
    assert list(inspect.signature(ask).parameters) == ["self", "task", "timeout_in_ms"]
