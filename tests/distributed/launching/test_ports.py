"""Ports that are kept for the processes of a job."""

from __future__ import annotations

import errno
import socket

import pytest

from keras_gpukit.distributed.launching.workers import REUSE, is_listening, reserved_ports


def test_no_other_process_can_take_a_reserved_port():
    with reserved_ports(3) as first, reserved_ports(3) as second:
        assert len({*first, *second}) == 6
        for port in first:
            with socket.socket() as stranger, pytest.raises(OSError) as raised:
                stranger.bind(("", port))
            assert raised.value.errno == errno.EADDRINUSE
            assert not is_listening(port)
    with socket.socket() as stranger:
        stranger.bind(("", first[0]))  # it is free once the job has ended


def test_a_port_in_use_is_not_given():
    with reserved_ports(200) as others, reserved_ports(200) as own:
        assert not {*others} & {*own}


SERVER = """
import socket
import sys
import tensorflow as tf

port = int(sys.argv[1])
tf.distribute.Server({"worker": [f"127.0.0.1:{port}"]}, job_name="worker", task_index=0)
socket.create_connection(("127.0.0.1", port), timeout=60)
print("connected")
"""


@pytest.mark.tensorflow
def test_tensorflows_server_takes_a_reserved_port(run_script):
    """Fails when TensorFlow no longer reads the variable."""
    with reserved_ports(1) as reserved:
        source = SERVER.replace("sys.argv[1]", str(reserved[0]))
        assert "connected" in run_script(source, **REUSE).stdout
