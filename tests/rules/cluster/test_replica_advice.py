"""What is advised before several replicas train, from hand-written facts."""

import pytest

from keras_gpukit.records import ReplicaInput
from keras_gpukit.rules.cluster.replica_advice import advise


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
