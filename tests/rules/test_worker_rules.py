"""Rules on several workers: the culprit is not one of its victims; and advice before they train."""

from dataclasses import replace

import pytest
from helpers.findings import bounds, found
from helpers.findings import by_name as figures
from helpers.summaries import stall
from helpers.workers import EXCHANGE_S, cluster, four, ring, steps

from keras_gpukit.records import (
    ComparedStep,
    DeviceMemory,
    Environment,
    GPUInfo,
    GPUUtilization,
    MemoryRecord,
    ReplicaInput,
    RunSummary,
    ThroughputRecord,
    UtilizationRecord,
    Worker,
    WorkerFigures,
)
from keras_gpukit.reports.phrases import headline, key_figures
from keras_gpukit.rules import judge
from keras_gpukit.rules.cluster.replica_advice import advise
from keras_gpukit.rules.comparing.pairs import setup


def run(workers=None, step_time_s=0.05, **parts):
    """A run of 1,000 steps."""
    settings = parts.pop("settings", {})
    wall_s = parts.pop("wall_s", 1000 * step_time_s)
    throughput = ThroughputRecord("fit", 1000, 1000, step_time_s, 640.0, wall_s)
    return RunSummary(Environment({}, **settings), throughput=throughput, workers=workers, **parts)


def with_trips(comparison, trips):
    members = (replace(each, round_trips=trips[each.index]) for each in comparison.members)
    return replace(comparison, members=tuple(members))


@pytest.mark.parametrize("culprit", range(4))
@pytest.mark.parametrize("cause", ["input", "compute"])
def test_the_worker_that_arrives_last_is_named_with_its_cause(culprit, cause):
    extra = {"extra_input_s" if cause == "input" else "extra_s": 0.020}
    finding = found("straggler", run(four(culprit, **extra)))
    assert finding.title.startswith(f"Worker {culprit} is a straggler")
    assert ("input" in finding.title) == (cause == "input")
    late_ms = figures(finding)[f"delay of worker {culprit}"]
    assert 17 <= late_ms <= 20  # the others arrive up to 3 ms apart
    assert bounds(finding)[0] == pytest.approx(late_ms)  # of each of the 1,000 steps
    what, own_ms = ("input wait", 21.0) if cause == "input" else ("compute", 39.0)
    assert figures(finding)[f"{what} of worker {culprit}"] == pytest.approx(own_ms)
    assert finding.severity == "critical"


def test_a_late_worker_costs_what_the_middle_half_of_its_delays_do():
    late = tuple(ComparedStep(n, 0.2, 0.001, 0.18 - 0.01 * n) for n in range(8))
    even = tuple(ComparedStep(n, 0.2, 0.001, 0.18) for n in range(8))
    workers = cluster(WorkerFigures(0, compared=even), WorkerFigures(1, compared=late))
    assert bounds(found("straggler", run(workers, 0.1))) == pytest.approx((20.0, 50.0))


def seldom_late():
    late, even = four(2, extra_s=0.020), four(2)
    return cluster(
        *(
            replace(one, compared=(*one.compared[:8], *other.compared[8:]))
            for one, other in zip(late.members, even.members, strict=True)
        )
    )


@pytest.mark.parametrize(
    "workers",
    [
        # Even workers, whatever the exchange takes; those that are last by little or seldom.
        *(four(exchange_s=0.001), four(exchange_s=0.050), four(3, extra_s=0.004), seldom_late()),
        # Links that are not clearly slower.
        with_trips(four(exchange_s=0.100), ring()),
        with_trips(four(exchange_s=0.100), ring(1, slow_s=0.0014)),  # under 3 times the others'
        with_trips(four(exchange_s=0.100), ring(1, slow_s=0.010, normal_s=0.009)),
        with_trips(four(exchange_s=0.100), ring(1, readings=2)),
    ],
)
def test_no_worker_is_named_that_is_not_clearly_and_mostly_the_last(workers):
    assert "straggler" in judge(run(workers)).passed


def test_the_input_waits_of_the_whole_run_name_a_straggler_that_no_capture_shows():
    def waiting(*waits):
        unknown = {"compared_unknown_because": "no profile"}
        made = (WorkerFigures(n, 200, 0.040, each, **unknown) for n, each in enumerate(waits))
        return run(cluster(*made))

    finding = found("straggler", waiting(0.0001, 0.0002, 0.0080, 0.0001))
    assert finding.title == "Worker 2 is a straggler: it waits for its input"
    assert figures(finding)["input wait of worker 2"] == pytest.approx(8.0)
    even = waiting(*[0.0001] * 4)
    assert "no profile" in judge(even).not_applicable["straggler"]


def test_slow_links_of_one_worker_are_named_where_no_worker_is_late():
    slow = with_trips(four(exchange_s=0.100), ring(slow=1))
    finding = found("straggler", run(slow, step_time_s=0.12))
    assert finding.title == "Worker 1 is a straggler: its network is slow"
    assert figures(finding)["round trip to worker 1"] == pytest.approx(10.0)
    # Three messages of a ring over the slow link, each half a round trip, and back; at most all.
    assert bounds(finding) == pytest.approx((3 * (10 - 0.7), 100.0))
    assert "worker 1" in judge(run(slow)).not_applicable["communication-bound"]
    both = with_trips(four(3, extra_s=0.050), ring(slow=1))
    assert found("straggler", run(both)).title.startswith("Worker 3")


def test_exchanging_gradients_counts_only_while_everybody_is_there():
    finding = found("communication-bound", run(four(exchange_s=0.010)))
    assert figures(finding)["that is"] == pytest.approx(10.0)
    assert figures(finding)["exchange in a step"] == pytest.approx(100 * 10 / 33)
    assert bounds(finding) == (0, pytest.approx(10.0))
    # Three workers wait 20 ms and more for the fourth; that is no communication.
    late = four(2, extra_s=0.060, exchange_s=EXCHANGE_S)
    assert "communication-bound" in judge(run(late)).passed


def shards(*examples):
    made = (WorkerFigures(index, 1000, examples=count) for index, count in enumerate(examples))
    return run(cluster(*made))


def test_uneven_shards_are_found_by_the_examples_of_each_worker():
    finding = found("uneven-shards", shards(64_000, 32_000, 64_000, 64_000))
    assert figures(finding) == {"examples of worker 1": 32_000, "examples of worker 0": 64_000}
    assert bounds(finding)[1] == pytest.approx(0.125 * 50)
    assert "uneven-shards" in judge(shards(64_000, 63_950, 64_000)).passed
    assert "uneven-shards" in judge(shards(64_000, 60_000, 64_000)).passed
    assert "uneven-shards" in judge(shards(64_000, None)).not_applicable


def replicas(busy=20.0, used=0.2, count=2, samples=100, waits=0.0, **settings):
    gpus = tuple(GPUUtilization(index, busy) for index in range(2))
    return run(
        settings={"gpus": (GPUInfo(0), GPUInfo(1)), "replicas": count, **settings},
        input=stall(waits),
        memory=MemoryRecord((DeviceMemory("GPU:0", 0, int(used * 1000), 1000),)),
        utilization=UtilizationRecord(samples, gpus),
    )


def test_a_batch_left_at_one_gpus_is_found_on_idle_gpus_with_room():
    finding = found("batch-not-scaled", replicas())
    assert finding.title == "Each of 2 replicas gets only 16 examples a step"
    assert any("ds.batch(batch_size * 2)" in line for line in finding.advice)
    # Of four replicas on two workers, two are this process's.
    of_two = replicas(count=4, worker=Worker("worker", 0, 2))
    assert "only 16" in found("batch-not-scaled", of_two).title
    assert "batch-not-scaled" in judge(replicas(busy=60.0)).passed
    assert "batch-not-scaled" in judge(replicas(used=0.6)).passed
    for reason, summary in (
        ("one worker", replicas(count=1)),
        ("read 4 times", replicas(samples=4)),
        ("wait for input", replicas(waits=0.5)),
    ):
        assert reason in judge(summary).not_applicable["batch-not-scaled"]


def seen(index, numbers):
    return WorkerFigures(index, compared=steps(0.02, numbers=numbers))


@pytest.mark.parametrize("code", ["straggler", "communication-bound"])
@pytest.mark.parametrize(
    ("workers", "reason"),
    [
        (None, "one worker"),
        (cluster(*four().members[:3], expected=4), "3 of 4 workers"),
        (
            replace(cluster(WorkerFigures(0), expected=2), unknown_because="not shared"),
            "not shared",
        ),
        (cluster(WorkerFigures(0), WorkerFigures(1)), "0 of the 5 steps needed are known"),
        (cluster(seen(0, range(1, 9)), seen(1, range(5, 13))), "4 of the 5 steps"),
    ],
)
def test_workers_that_were_not_seen_at_the_same_steps_are_not_judged(code, workers, reason):
    assert reason in judge(run(workers)).not_applicable[code]


def test_replicas_of_one_process_are_judged_by_the_same_rule_and_by_its_cost():
    late = replace(four(2, extra_s=0.020), kind="replica")
    assert found("straggler", run(late)).title.startswith("Replica 2 is a straggler")
    assert found("straggler", run(late, wall_s=1_000.0)) is None


ONE_OF_TWO = {"worker": Worker("worker", 0, 2)}
TOGETHER = {**ONE_OF_TWO, "replicas": 2, "strategy": "CollectiveAllReduceStrategy"}


@pytest.mark.parametrize("strategy", [None, "MirroredStrategy"])
def test_workers_without_a_strategy_that_connects_them_train_alone(strategy):
    alone = run(settings={**ONE_OF_TWO, "replicas": 1, "strategy": strategy})
    finding = found("workers-not-connected", alone)
    assert finding.severity == "warning"
    assert figures(finding) == {"workers": 2}
    assert 'configure_gpus(strategy="auto")' in finding.advice[0]
    assert "launch --workers 2 -m keras_gpukit run --strategy auto" in finding.advice[1]
    assert "640 examples/s" in headline(alone)
    worker = setup(alone.environment)["worker"]
    assert worker == "worker, index 0 of 2, trains alone: it made no strategy"


def test_workers_that_train_together_and_servers_do_not_train_alone():
    together = run(settings=TOGETHER)
    assert "workers-not-connected" in judge(together).passed
    assert setup(together.environment)["worker"] == "worker, index 0 of 2 that train together"
    coordinator = {"worker": Worker("chief", None, 2), "replicas": 1}
    assert "workers-not-connected" in judge(run(settings=coordinator)).passed
    for settings in ({}, ONE_OF_TWO):
        assert "workers-not-connected" in judge(run(settings=settings)).not_applicable
    # The rate of one of several workers is that of each.
    assert "640 examples/s on each worker" in headline(together)
    assert dict(key_figures(together))["examples per second on each worker"] == "640"
    assert dict(key_figures(run()))["examples per second"] == "640"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (ReplicaInput(4, 4, "FILE", files=3), "3 files cannot be shared among 4 workers"),
        (ReplicaInput(4, 4, "AUTO", files=3), "set AutoShardPolicy.DATA"),
        (ReplicaInput(4, 4, "FILE", files=6), "some get 2 and others 1"),
        (ReplicaInput(4, 4, "DATA", files=8), "Each of 4 workers reads all of the data"),
        (ReplicaInput(4, 4, "AUTO"), "shared out by elements"),
        (ReplicaInput(4, 4, "OFF"), "an epoch is 4 passes"),
        (ReplicaInput(4, batch=30), "Use 32"),
        (ReplicaInput(4, batch=32, last_batch=3), "some replicas get none"),
        (ReplicaInput(4, batch=32, last_batch=8), "drop_remainder=True"),
        (ReplicaInput(4, batch=32, batch_norms=2), "2 BatchNormalization layers"),
    ],
)
def test_what_is_wrong_is_said(given, words):
    (advice,) = advise(given)
    assert words in advice


@pytest.mark.parametrize(
    "given",
    [
        ReplicaInput(1, batch=30, last_batch=3, batch_norms=2),
        ReplicaInput(4, 4, "FILE"),  # how many files is unknown
        ReplicaInput(4, 4, "AUTO", files=8),
        ReplicaInput(4, 1, "DATA", files=1),  # one process shares nothing out
        ReplicaInput(4, batch=32, last_batch=32),
        ReplicaInput(4, batch=32, last_batch=3, drops_remainder=True),
        ReplicaInput(4, last_batch=3, batch_norms=2),
        ReplicaInput(4, batch=64, batch_norms=2),
    ],
)
def test_nothing_is_said_without_evidence(given):
    assert advise(given) == ()
