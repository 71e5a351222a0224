"""The workers of a launch know each other among the processes of the host."""

from __future__ import annotations

import subprocess
import sys

from helpers.launches import Launch

WATCH = """
from keras_gpukit.sensors import neighbours

neighbours.NAMED = 99  # on a busy machine too

def both_reached(stage):
    Path(f"{stage}-{index}").touch()
    while len(list(Path().glob(f"{stage}-*"))) < 2:
        time.sleep(0.01)

both_reached("ready")
if index == 1:
    until = time.monotonic() + 2
    while time.monotonic() < until:
        pass
else:
    sensor = neighbours.NeighbourSensor()
    sensor.look()
    time.sleep(1.5)
    sensor.look()
    print("job", sensor.job_percent())
    print("named", [use.pid for use in sensor.uses()])
print("pid", index, os.getpid())
both_reached("done")
"""


def test_another_worker_of_the_job_is_no_stranger_but_a_busy_program_is(tmp_path):
    stranger = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        result = Launch(tmp_path, WATCH, "--workers=2").run()
    finally:
        stranger.kill()
        stranger.wait()
    assert result.returncode == 0, result.stderr
    lines = [line.split("] ")[1] for line in result.stdout.splitlines()]
    words = dict(line.split(" ", 1) for line in lines)
    assert float(words["job"]) > 0
    assert str(stranger.pid) in words["named"]
    pids = [line.split()[-1] for line in lines if line.startswith("pid")]
    assert len(pids) == 2
    assert not any(pid in words["named"] for pid in pids)
