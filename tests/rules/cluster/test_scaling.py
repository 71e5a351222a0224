"""The ring model, and what it takes from a record."""

import pytest

from keras_gpukit.records.environment import Environment, Worker
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.scaling import Link, ScalingBasis
from keras_gpukit.records.steps import ThroughputRecord
from keras_gpukit.records.worker_comparison import (
    ComparedStep,
    RoundTrip,
    WorkerComparison,
    WorkerFigures,
)
from keras_gpukit.rules.cluster.scaling import basis_of, forecast, latency_s, measured_link, ring_s

ONE = ScalingBasis(step_s=0.1, gradient_bytes=100_000_000, batch=64)
FAST, SLOW = Link(100e9, 0.0), Link(10e9, 5e-6)


def points(basis=ONE, inside=FAST, between=SLOW, gpus=(1, 8, 64), **options):
    made = forecast(basis, inside, between, gpus=gpus, gpus_per_node=8, **options)
    return {each.gpus: each for each in made.points}


def test_a_ring_sends_nearly_twice_the_bytes_in_so_many_messages():
    assert ring_s(100e6, 2, 10e9, None) == pytest.approx(0.01)
    assert ring_s(100e6, 4, 10e9, 1e-3) == pytest.approx(0.015 + 0.006)


def test_nodes_exchange_after_their_gpus_did():
    found = points()
    assert found[1].exchange_s == 0
    assert found[1].efficiency == 1
    inside_s = 1.75 * 1e8 / 100e9
    assert found[8].exchange_s == pytest.approx(inside_s)
    assert found[64].nodes == 8
    assert found[64].exchange_s == pytest.approx(inside_s + 1.75 * 1e8 / 10e9 + 14 * 5e-6)
    assert found[64].step_s == pytest.approx(0.1 + found[64].exchange_s)
    assert found[64].efficiency == pytest.approx(0.1 / found[64].step_s)
    assert found[64].examples_per_s == pytest.approx(64 * 64 / found[64].step_s)


def test_more_links_of_a_node_share_the_bytes():
    slower, faster = points()[64], points(links_per_node=8)[64]
    assert slower.exchange_s - faster.exchange_s == pytest.approx(7 / 8 * 1.75 * 1e8 / 10e9)


@pytest.mark.parametrize(
    ("basis", "inside", "between", "words"),
    [
        (ScalingBasis(step_s=0.1, batch=8), FAST, SLOW, "size of the gradients"),
        (ONE, FAST, Link(), "the bandwidth between nodes"),
        (ONE, Link(), SLOW, "the bandwidth inside nodes"),
        (ScalingBasis(gradient_bytes=8, batch=8), FAST, SLOW, "step time of one GPU"),
    ],
)
def test_what_is_unknown_stays_unknown(basis, inside, between, words):
    point = points(basis, inside, between)[64]
    assert point.step_s is point.efficiency is point.examples_per_s is None
    assert words in point.unknown_because


def test_an_unknown_batch_leaves_only_the_rate_unknown():
    point = points(ScalingBasis(step_s=0.1, gradient_bytes=8))[64]
    assert point.efficiency is not None
    assert point.examples_per_s is None


def test_an_unknown_latency_is_said():
    made = forecast(ONE, Link(1e9), Link(1e9, 1e-6), gpus=(8,), gpus_per_node=8)
    assert [each for each in made.assumptions if "inside nodes is unknown" in each]
    assert not [each for each in made.assumptions if "between nodes is unknown" in each]


def run(replicas=1, workers=None, exchange_s=None, trips=(), trainable_bytes=4_000_000):
    comparison = None
    if exchange_s is not None:
        steps = tuple(ComparedStep(n, 0.1, 0.0, exchange_s) for n in range(8))
        comparison = WorkerComparison(
            tuple(WorkerFigures(n, compared=steps, round_trips=trips) for n in range(2)), 2
        )
    worker = Worker("worker", 0, workers) if workers else None
    return RunSummary(
        Environment({}, replicas=replicas, worker=worker, trainable_bytes=trainable_bytes),
        ThroughputRecord("fit", 10, 10, 0.1, 640.0),
        workers=comparison,
    )


def test_one_replica_is_the_basis_itself():
    basis = basis_of(run())
    assert (basis.step_s, basis.gradient_bytes, basis.batch) == (0.1, 4_000_000, 64)
    assert basis.unknown == {}


def test_the_measured_exchange_is_taken_out_and_gives_the_bandwidth():
    trips = (RoundTrip(1, 4e-4, 5e-4, 5),)
    summary = run(replicas=2, workers=2, exchange_s=0.02, trips=trips)
    basis = basis_of(summary)
    assert basis.step_s == pytest.approx(0.08)
    assert latency_s(summary) == pytest.approx(2e-4)
    link = measured_link(basis, 2e-4, "measured")
    assert link.bandwidth_bytes_per_s == pytest.approx(4e6 / (0.02 - 2 * 2e-4))
    again = ring_s(4e6, 2, link.bandwidth_bytes_per_s, link.latency_s)
    assert again == pytest.approx(0.02)


def test_an_exchange_that_was_not_measured_leaves_one_gpu_unknown():
    basis = basis_of(run(replicas=2))
    assert basis.step_s is None
    assert "was not measured" in basis.unknown["step_s"]
    assert measured_link(basis, None, "").bandwidth_bytes_per_s is None


def test_an_exchange_over_links_of_two_kinds_gives_no_bandwidth():
    basis = ScalingBasis(0.1, 1000, 8, exchange_s=0.01, replicas=4, workers=2)
    assert measured_link(basis, None, "").bandwidth_bytes_per_s is None


def test_a_record_without_sizes_says_so():
    basis = basis_of(run(trainable_bytes=None))
    assert basis.gradient_bytes is None
    assert "trainable weights" in basis.unknown["gradient_bytes"]
