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
    printed = json.loads(done.stdout.splitlines()[-1])
    assert printed["same"]
    # Of two calls: the first replica waits for the second, which counts a little too.
    assert 0.1 < printed["waited_s"] < 2 * printed["took_s"]
    assert printed["still_clocked"]  # another run of the process still watches
    assert printed["restored"]
