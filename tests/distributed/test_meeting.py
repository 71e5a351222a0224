"""Processes wait for each other, with a limit."""

import socket
import threading

import pytest
from helpers.clusters import free_addresses

from keras_gpukit.distributed.launching.workers import REUSE, address_of, reserved_ports
from keras_gpukit.distributed.rendezvous import answers, wait_for_tasks
from keras_gpukit.errors import WorkerError


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
