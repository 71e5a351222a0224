"""The workers of a launch know each other among the processes of the host."""

from __future__ import annotations

import subprocess
import sys

from helpers.launches import Launch

WATCH = """
import psutil
from keras_gpukit.sensors import neighbours

neighbours.NAMED = 99  # on a busy machine too

def both_reached(stage):
    Path(f"{stage}-{index}").touch()
    while len(list(Path().glob(f"{stage}-*"))) < 2:
        time.sleep(0.01)

def have_computed(seconds, *files):
    # Waits until the processes of these numbers have.
    processes = [psutil.Process(int(Path(file).read_text())) for file in files]
    before = [each.cpu_times().user for each in processes]
    while any(p.cpu_times().user < b + seconds for p, b in zip(processes, before)):
        time.sleep(0.01)

Path(f"pid-{index}").write_text(str(os.getpid()))
both_reached("ready")
if index == 1:
    while not Path("looked").exists():
        pass
else:
    sensor = neighbours.NeighbourSensor()
    sensor.look()
    have_computed(0.5, "pid-1", "stranger")
    sensor.look()
    Path("looked").touch()
    print("job", sensor.job_percent())
    print("named", [use.pid for use in sensor.uses()])
print("pid", index, os.getpid())
both_reached("done")
"""


def test_another_worker_of_the_job_is_no_stranger_but_a_busy_program_is(tmp_path):
    stranger = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    (tmp_path / "stranger").write_text(str(stranger.pid))
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
