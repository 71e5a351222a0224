"""Jobs of real processes on this machine; their scripts need no framework."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.launches import Launch

from keras_gpukit.cli.main import main


@pytest.mark.heavy
def test_each_process_knows_its_place_and_its_output_is_told_apart(tmp_path):
    source = """
        print("arguments", sys.argv, os.environ["CUDA_VISIBLE_DEVICES"])
        print("config", json.dumps(config))
        print("error", file=sys.stderr)
        print("Epoch 1/2\\n\\r1/2 \\u2501 0s 5ms/step - loss: 1.0\\b\\b\\r2/2 \\u2501 0s")
        """
    launch = Launch(tmp_path, source, "--workers=2", "--log-dir=logs", arguments=("--", "-m"))
    launch.environment["CUDA_VISIBLE_DEVICES"] = "GPU-a,GPU-b,GPU-c,GPU-d"
    result = launch.run()
    assert result.returncode == 0, result.stderr
    for index, gpus in enumerate(("GPU-a,GPU-b", "GPU-c,GPU-d")):
        assert f"[worker {index}] arguments ['script.py', '--', '-m'] {gpus}\n" in result.stdout
        assert f"[worker {index}] error\n" in result.stderr
        log = (tmp_path / "logs" / f"worker-{index}.log").read_text()
        assert "arguments" in log
        assert "error\n" in log
        assert "Epoch 1/2\n2/2 ━ 0s\n" in log
    configs = [json.loads(each) for each in re.findall(r"config (.*)", result.stdout)]
    assert configs[0]["cluster"] == configs[1]["cluster"]
    assert len({*configs[0]["cluster"]["worker"]}) == 2
    assert {each["task"]["index"] for each in configs} == {0, 1}
    # One progress display, the chief's.
    assert "[worker 0] Epoch 1/2\n[worker 0] 2/2 ━ 0s\n" in result.stdout
    assert "[worker 1] Epoch" not in result.stdout
    assert "[worker 1] 2/2" not in result.stdout


@pytest.mark.heavy
def test_a_module_is_launched_too_and_a_worker_bound_to_processors(tmp_path):
    (tmp_path / "package").mkdir()
    source = "import os, sys; print(__name__, sys.argv[1:], len(os.sched_getaffinity(0)))"
    (tmp_path / "package" / "train.py").write_text(source)
    options = ("--workers=1", "--cpus-per-worker=1", "-m", "package.train")
    result = Launch(tmp_path, "", *options, arguments=("--x",)).run()
    printed = "[worker 0] __main__ ['script.py', '--x'] 1\n"
    assert (result.stdout, result.stderr) == (printed, "")


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("how", "code", "last"),
    [
        ("raise ValueError('boom')", 1, "ended with exit code 1."),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137, "was killed by SIGKILL"),
    ],
)
def test_if_one_fails_all_are_stopped_and_it_is_named_last(tmp_path, how, code, last):
    source = f"""
        signal.signal(signal.SIGTERM, lambda *_: None)  # as TensorFlow does
        ready()
        if index == 1:
            while not all(Path(f"ready-{{i}}").exists() for i in range(3)):
                time.sleep(0.01)
            print("last words", file=sys.stderr)
            {how}
        while True:
            time.sleep(0.1)
        """
    result = Launch(tmp_path, source, "--workers=3", "--grace=0.3").run()
    assert result.returncode == code
    *before, named = result.stderr.splitlines()
    assert named.startswith(f"keras-gpukit launch: worker 1 {last}")
    assert before[-1] == "[worker 1] " + ("ValueError: boom" if code == 1 else "last words")
    assert result.stderr.count("last words") == 1  # what is seen last is not repeated


@pytest.mark.heavy
def test_the_traceback_is_shown_again_if_others_printed_after_it(tmp_path):
    source = """
        if index == 1:
            while not Path("ready-0").exists():
                time.sleep(0.01)
            raise ValueError("boom")
        signal.signal(signal.SIGTERM, lambda *_: (print("stopping", file=sys.stderr), sys.exit(0)))
        ready()
        time.sleep(600)
        """
    lines = Launch(tmp_path, source, "--workers=2").run().stderr.splitlines()
    assert lines.index("[worker 0] stopping") < len(lines) - 3
    assert lines[-2] == "[worker 1] ValueError: boom"
    assert lines[-1] == "keras-gpukit launch: worker 1 ended with exit code 1."


@pytest.mark.heavy
def test_the_cause_is_named_and_not_its_consequences(tmp_path):
    """Worker 1 raises and hangs while it ends, as TensorFlow can; that ends worker 0 first."""
    source = """
        if index == 1:
            import atexit, time
            atexit.register(lambda: (ready(), time.sleep(600)))
            raise ValueError("boom")
        class UnavailableError(Exception):
            pass
        while not Path("ready-1").exists():  # its traceback is printed
            time.sleep(0.01)
        raise UnavailableError("the peer is gone")
        """
    result = Launch(tmp_path, source, "--workers=2", "--grace=0.3").run()
    assert result.returncode == 1
    shown, named = result.stderr.splitlines()[-2:]
    assert shown == "[worker 1] ValueError: boom"
    last = "worker 0 failed after it (UnavailableError: the peer is gone)."
    assert named == f"keras-gpukit launch: worker 1 raised an exception and did not end. {last}"


@pytest.mark.heavy
def test_a_worker_that_never_comes_is_an_error_within_the_timeout(tmp_path):
    source = """
        ready()
        while not all(Path(f"ready-{i}").exists() for i in range(3)):
            time.sleep(0.01)
        if index != 2:
            server = listen(config["cluster"]["worker"][index])
        print("waiting", file=sys.stderr)
        time.sleep(600)
        """
    result = Launch(tmp_path, source, "--workers=3", "--timeout=2").run()
    assert result.returncode == 124
    last = result.stderr.splitlines()[-1]
    assert "worker 2 did not join the others within 2 s: it is running, and no server" in last


@pytest.mark.heavy
def test_processes_without_a_cluster_may_run_on_and_a_script_that_is_not_there_is_named(tmp_path):
    result = Launch(tmp_path, "time.sleep(1)", "--workers=2", "--timeout=0.1").run()
    assert result.returncode == 0
    assert result.stderr.count("so nothing connects them") == 1
    result = Launch(tmp_path, "", "--workers=2", "nowhere.py").run()
    assert result.returncode == 2
    assert "can't open file" in result.stderr


@pytest.mark.heavy
def test_two_jobs_on_one_machine_do_not_meet(tmp_path):
    source = """
        address = config["cluster"]["worker"][index]
        try:
            socket.socket().bind(("", int(address.rpartition(":")[2])))
        except OSError as error:
            print("taken by a stranger:", error)
        server = listen(address)
        ready()
        while len(list(Path("..").glob("*/ready-*"))) < 6:  # of both jobs
            time.sleep(0.01)
        print("at", address)
        """
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    launches = [Launch(folder, source, "--workers=3") for folder in folders]
    addresses = set()
    for process in [each.start() for each in launches]:
        output, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        assert output.count("taken by a stranger: [Errno 98]") == 3
        addresses |= {*re.findall(r"at (\S+:\d+)", output)}
    assert len(addresses) == 6


@pytest.mark.heavy
def test_all_are_started_again_up_to_so_many_times(tmp_path):
    source = """
        def starts(of):
            file = Path(f"started-{of}")
            return file.read_text() if file.exists() else ""

        Path(f"started-{index}").write_text(starts(index) + "x")
        while len(starts(1 - index)) < len(starts(index)):
            time.sleep(0.01)
        if index == 1 and len(starts(index)) <= 2:
            raise ValueError(f"failure {starts(index)}")
        time.sleep(0.5)
        """
    result = Launch(tmp_path, source, "--workers=2", "--restarts=2", "--log-dir=logs").run()
    assert result.returncode == 0, result.stderr
    assert [(tmp_path / f"started-{i}").read_text() for i in (0, 1)] == ["xxx", "xxx"]
    messages = [line for line in result.stderr.splitlines() if line.startswith("keras-gpukit")]
    ended = "keras-gpukit launch: worker 1 ended with exit code 1."
    again = "keras-gpukit launch: All are started again; restarts left after this one:"
    assert messages[:-1] == [ended, f"{again} 1.", ended, f"{again} 0."]
    assert "so nothing connects them" in messages[-1]  # at the end at the latest
    log = (tmp_path / "logs" / "worker-1.log").read_text()
    assert log.count("--- ") == 3
    assert log.count("Traceback") == 2


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--workers", "0", "x.py"], "`--workers` must be a whole number from 1 on"),
        (["--workers", "2"], "Give the SCRIPT to run, or -m MODULE"),
        (["x.py"], "the following arguments are required: --workers"),
        (["--workers=2", "--timeout", "nan", "x.py"], "--timeout: must be a number above 0, and"),
        (["--workers", "2", "--log-dir", __file__, "x.py"], "is not a folder"),
        (["--workers=1", "--cpus-per-worker=9999", "x.py"], "1 workers with 9999 processors each"),
        (["--workers", "2", "x.py"], "TF_CONFIG is set"),
    ],
)
def test_wrong_arguments_start_nothing(arguments, complaint, capsys, monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    if "TF_CONFIG" in complaint:  # a process of a cluster launches none
        monkeypatch.setenv("TF_CONFIG", "{}")
    with pytest.raises(SystemExit) as exit_info:
        main(["launch", *arguments])
    assert exit_info.value.code == 2
    assert complaint in capsys.readouterr().err


WATCH = """
import psutil
from keras_gpukit.sensors import other_processes

other_processes.NAMED = 99  # on a busy machine too

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
    sensor = other_processes.OtherProcessesSensor()
    sensor.poll()
    have_computed(0.5, "pid-1", "stranger")
    sensor.poll()
    Path("looked").touch()
    print("job", sensor.job_percent())
    print("named", [use.pid for use in sensor.uses()])
print("pid", index, os.getpid())
both_reached("done")
"""


@pytest.mark.heavy
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


SERVERS = """
import psutil

def servers(type):
    for process in psutil.Process().parent().parent().children(recursive=True):
        task = json.loads(process.environ().get("TF_CONFIG", "{}")).get("task", {})
        if task.get("type") == type and "launching.servers" in " ".join(process.cmdline()):
            if "supervisor.py" not in " ".join(process.cmdline()):
                yield process
"""
# With servers that only listen.
REPLACED = f"""{SERVERS}
from contextlib import suppress

def running_worker(but=None):
    while True:
        with suppress(psutil.NoSuchProcess):
            for process in servers("worker"):
                if process != but:
                    return process
        time.sleep(0.01)

worker = running_worker()
worker.kill()
replaced = running_worker(but=worker)
print("parameter servers", len(list(servers("ps"))))
print("GPUs", os.environ["CUDA_VISIBLE_DEVICES"])
"""
COORDINATOR = f"""{SERVERS}
import tensorflow as tf

strategy = tf.distribute.ParameterServerStrategy(
    tf.distribute.cluster_resolver.TFConfigClusterResolver()
)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    total = tf.Variable(0.0)

@tf.function
def step():
    total.assign_add(1.0)

for number in range(20):
    coordinator.schedule(step)
    if number == 10:
        coordinator.join()
        [worker] = servers("worker")
        worker.kill()
coordinator.join()  # ends once the worker is back, since there is no other
[replaced] = servers("worker")
print("replaced", replaced.pid != worker.pid)
print("steps", total.numpy())
"""


def assert_replaced(result):
    assert result.returncode == 0, result.stderr[-3000:]
    assert "keras-gpukit launch: worker 0 was killed by SIGKILL" in result.stderr
    assert "It is started again; training continues." in result.stderr


@pytest.mark.heavy
def test_a_worker_that_dies_is_replaced_and_the_job_goes_on(tmp_path):
    launch = Launch(tmp_path, REPLACED, "--workers=1", "--ps=1")
    stand_ins = str(Path(__file__).parent / "stand_ins")
    launch.environment["PYTHONPATH"] = stand_ins + os.pathsep + launch.environment["PYTHONPATH"]
    result = launch.run(timeout_s=240)
    assert_replaced(result)
    assert "[chief] parameter servers 1\n" in result.stdout
    assert "[chief] GPUs -1\n" in result.stdout


# In `make test`, the test above shows that the worker comes back, and
# distributed/test_parameter_servers.py that TensorFlow goes on without it.
@pytest.mark.tensorflow
@pytest.mark.long
def test_no_step_is_lost_with_a_worker_that_dies(tmp_path):
    result = Launch(tmp_path, COORDINATOR, "--workers=1", "--ps=1").run(timeout_s=240)
    assert_replaced(result)
    assert "[chief] replaced True\n" in result.stdout
    assert "[chief] steps 20.0\n" in result.stdout
