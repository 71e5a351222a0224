"""Which other processes use the cores, on a machine whose processes are made up."""

from __future__ import annotations

import functools
import json
import os
from types import SimpleNamespace

import psutil
import pytest

from keras_gpukit.records import HostSample
from keras_gpukit.sensors.other_processes import OtherProcessesSensor


class FakeHost:
    """Processes with their processor time, of four cores, at a time that a test sets."""

    def __init__(self, monkeypatch):
        self.now_s, self.looks = 0.0, 0
        self.spent_s = {}
        self.children = []
        self.parents = {}
        self.environments, self.asked = {}, []
        monkeypatch.setattr(psutil, "cpu_count", lambda: 4)
        monkeypatch.setattr(psutil, "process_iter", self.processes)
        monkeypatch.setattr(psutil.Process, "environ", lambda process: self.environ(process.pid))
        monkeypatch.setattr(
            psutil.Process,
            "children",
            lambda process, recursive: [SimpleNamespace(pid=pid) for pid in self.children],
        )
        self.ended_s = 0.0
        monkeypatch.setattr(os, "times", lambda: os.times_result((0, 0, self.ended_s, 0, 0)))
        self.sensor = OtherProcessesSensor(lambda: self.now_s)

    def processes(self, names):
        self.looks += 1
        for (pid, name), spent_s in self.spent_s.items():
            spent = None if spent_s is None else SimpleNamespace(user=spent_s, system=0.0)
            info = {"pid": pid, "name": name, "cpu_times": spent, "ppid": self.parents.get(pid, 1)}
            yield SimpleNamespace(info=info, environ=functools.partial(self.environ, pid))

    def environ(self, pid):
        self.asked.append(pid)
        if pid == 1:
            raise psutil.AccessDenied(pid)
        return self.environments.get(pid, {})

    def note(self, at_s, others_percent=60.0):
        self.now_s = at_s
        self.sensor.note(HostSample(others_percent + 30.0, 30.0))

    def end(self):
        self.now_s = 11.0
        self.sensor.end()


@pytest.fixture
def host(monkeypatch):
    return FakeHost(monkeypatch)


def test_processes_are_named_by_what_they_used_while_others_used_much(host):
    host.spent_s = {(1, "init"): 5.0, (7, "make"): 100.0, (os.getpid(), "python"): 9.0}
    host.children = [8]
    host.note(1.0)
    host.spent_s |= {(7, "make"): 110.0, (9, "blender"): 20.0, (8, "worker"): 4.0, (3, None): None}
    host.spent_s[os.getpid(), "python"] = 19.0
    host.end()
    found = [(use.name, use.pid, use.cpu_percent) for use in host.sensor.uses()]
    assert found == [("blender", 9, 50.0), ("make", 7, 25.0)]
    assert host.sensor.children_percent() == 10.0


def test_children_that_ended_between_looks_count_as_children(host):
    host.children, host.spent_s = [8], {(8, "ffmpeg"): 3.0}
    host.note(1.0)
    host.children, host.spent_s, host.ended_s = [9], {(9, "ffmpeg"): 2.0}, 9.0
    host.end()
    # 9 s of children that have ended, of which 3 s were before, and 2 s of one that lives.
    assert host.sensor.children_percent() == 20.0
    assert host.sensor.uses() == ()


@pytest.mark.parametrize(("second", "named"), [("kthreadd", []), ("python", ["kworker/1:1"])])
def test_threads_of_the_kernel_are_not_named(host, second, named):
    host.spent_s = {(1, "init"): 5.0, (2, second): 0.0, (19, "kworker/1:1"): 0.0}
    host.parents = {19: 2}
    host.note(1.0)
    host.spent_s[19, "kworker/1:1"] = 20.0
    host.end()
    assert [use.name for use in host.sensor.uses()] == named


def test_nothing_is_looked_at_while_others_use_little(host):
    host.note(1.0, 20.0)
    host.sensor.note(HostSample(None, None))
    host.sensor.end()
    assert host.looks == 0
    assert host.sensor.uses() == ()
    assert host.sensor.children_percent() is None


def test_looks_get_rarer_the_longer_a_run_lasts(host):
    for second in range(1, 101):
        host.note(float(second))
    assert host.looks == 7  # at 1, 3, 5, 9, 17, 33 and 65 seconds


def worker(index, port=2222):
    cluster = {"worker": [f"localhost:{port}", f"localhost:{port + 1}"]}
    task = {"type": "worker", "index": index}
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}


def step(number):
    return {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": number, "SLURM_PROCID": number}


@pytest.mark.parametrize(
    ("own", "same", "other"),
    [
        (worker(0), worker(1), worker(1, port=3333)),
        (step("0"), step("0"), step("1")),
        ({"PMIX_NAMESPACE": "a"}, {"PMIX_NAMESPACE": "a"}, {"PMIX_NAMESPACE": "b"}),
        ({"OMPI_MCA_ess_base_jobid": "a"}, {"OMPI_MCA_ess_base_jobid": "a"}, {}),
    ],
)
def test_processes_of_the_same_job_are_told_apart_from_those_of_others(host, own, same, other):
    host.environments = {os.getpid(): own, 7: same, 8: same, 9: other}
    host.children = [8]
    names = [(1, "init"), (7, "python"), (8, "python"), (9, "python")]
    host.spent_s = dict.fromkeys(names, 5.0)
    host.note(1.0)
    host.spent_s = dict.fromkeys(names, 15.0)
    host.end()
    assert [use.pid for use in host.sensor.uses()] == [1, 9]
    assert host.sensor.job_percent() == 25.0
    assert host.sensor.children_percent() == 25.0
    assert sorted(host.asked) == sorted([1, 7, 8, 9, os.getpid()])  # each once


@pytest.mark.parametrize("own", [{}, {"TF_CONFIG": "{"}, {"TF_CONFIG": '{"cluster": {}}'}])
def test_outside_a_job_no_process_is_asked(host, own):
    host.environments = {os.getpid(): own}
    host.spent_s = {(7, "python"): 5.0}
    host.note(1.0)
    host.spent_s = {(7, "python"): 15.0}
    host.end()
    assert host.asked == [os.getpid()]
    assert [use.pid for use in host.sensor.uses()] == [7]
    assert host.sensor.job_percent() == 0.0
