"""The clock around collectives: it counts the wait for a late replica, and changes no value."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers import prepared

CASE = Path(__file__).parent / "cases" / "clocked_collectives.py"


@pytest.mark.tensorflow
def test_a_wait_for_a_late_replica_is_counted_and_no_value_changes():
    done = prepared.run(CASE)
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["same"]
    # Of two calls: the first replica waits for the second, which counts a little too.
    assert 0.1 < told["waited_s"] < 2 * told["took_s"]
    assert told["still_clocked"]  # another run of the process still watches
    assert told["restored"]
