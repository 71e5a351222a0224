"""What tests of launched processes share."""

import pytest
from helpers.launches import Launch, end_all


@pytest.fixture(autouse=True)
def _no_test_leaves_a_process():
    yield
    if Launch.started:
        end_all(Launch.started)
        Launch.started.clear()
