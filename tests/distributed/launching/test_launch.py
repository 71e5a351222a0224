"""Jobs of real processes on this machine; their scripts need no framework."""

from __future__ import annotations

import json
import re

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
    assert result.stderr.splitlines()[-1] == (
        "keras-gpukit launch: worker 1 raised an exception and did not end. worker 0 failed after "
        "it (UnavailableError: the peer is gone)."
    )
    assert result.stderr.splitlines()[-2] == "[worker 1] ValueError: boom"


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
def test_processes_without_a_cluster_may_run_on_and_it_is_said_in_time(tmp_path):
    result = Launch(tmp_path, "time.sleep(1)", "--workers=2", "--timeout=0.1").run()
    assert result.returncode == 0
    assert result.stderr.count("so nothing connects them") == 1


@pytest.mark.heavy
def test_two_jobs_on_one_machine_do_not_meet(tmp_path):
    source = """
        name = os.environ["GPUKIT_TEST_LAUNCH"]
        addresses = config["cluster"]["worker"]
        stranger = socket.socket()
        try:
            stranger.bind(("", int(addresses[index].rpartition(":")[2])))
        except OSError as error:
            print("taken by a stranger:", error)
        server = listen(addresses[index])
        ready()
        while not all(Path(f"ready-{i}").exists() for i in range(3)):
            time.sleep(0.01)
        asked = [socket.create_connection(("127.0.0.1", int(a.split(":")[1]))) for a in addresses]
        for each in asked:
            each.send(b"?")
        callers = []
        while len(callers) < len(asked):
            caller = server.accept()[0]
            if caller.recv(1):  # else it only looked whether anyone listens
                caller.send(name.encode())
                callers.append(caller)
        print("met", {each.recv(100).decode() for each in asked} == {name})
        """
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    launches = [Launch(folder, source, "--workers=3") for folder in folders]
    for process in [each.start() for each in launches]:
        output, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        assert output.count("met True") == 3
        assert output.count("taken by a stranger: [Errno 98]") == 3


FAILS_AT_FIRST = """
    def starts(of):
        file = Path(f"started-{of}")
        return file.read_text() if file.exists() else ""

    Path(f"started-{index}").write_text(starts(index) + "x")
    while len(starts(1 - index)) < len(starts(index)):
        time.sleep(0.01)
    if index == 1 and len(starts(index)) <= FAILURES:
        raise ValueError(f"failure {starts(index)}")
    time.sleep(0.5)
    """


@pytest.mark.heavy
def test_all_are_started_again_up_to_so_many_times(tmp_path):
    source = FAILS_AT_FIRST.replace("FAILURES", "2")
    result = Launch(tmp_path, source, "--workers=2", "--restarts=2", "--log-dir=logs").run()
    assert result.returncode == 0, result.stderr
    assert [(tmp_path / f"started-{i}").read_text() for i in (0, 1)] == ["xxx", "xxx"]
    messages = [line for line in result.stderr.splitlines() if line.startswith("keras-gpukit")]
    assert messages[:-1] == [
        "keras-gpukit launch: worker 1 ended with exit code 1.",
        "keras-gpukit launch: All are started again; restarts left after this one: 1.",
        "keras-gpukit launch: worker 1 ended with exit code 1.",
        "keras-gpukit launch: All are started again; restarts left after this one: 0.",
    ]
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
        (
            ["--workers", "2", "--timeout", "nan", "x.py"],
            "argument --timeout: must be a number above 0, and is 'nan'",
        ),
        (["--workers", "2", "--log-dir", __file__, "x.py"], "is not a folder"),
        (["--workers=1", "--cpus-per-worker=9999", "x.py"], "1 workers with 9999 processors each"),
    ],
)
def test_wrong_arguments_start_nothing(arguments, complaint, capsys, monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(SystemExit) as exit_info:
        main(["launch", *arguments])
    assert exit_info.value.code == 2
    assert complaint in capsys.readouterr().err


def test_a_process_of_a_cluster_launches_none(capsys, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "{}")
    with pytest.raises(SystemExit):
        main(["launch", "--workers", "2", "x.py"])
    assert "TF_CONFIG is set" in capsys.readouterr().err


@pytest.mark.heavy
def test_a_script_that_cannot_be_opened_is_named(tmp_path):
    launch = Launch(tmp_path, "", "--workers=2", "nowhere.py")
    result = launch.run()
    assert result.returncode == 2
    assert "can't open file" in result.stderr
