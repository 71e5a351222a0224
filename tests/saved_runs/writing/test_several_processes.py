"""Processes that write to one log directory at the same time; none of them loads TensorFlow."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.processes import environment

from keras_gpukit.records import Worker
from keras_gpukit.saved_runs.log_folder import load_report

pytestmark = pytest.mark.heavy

# Opens its log, and says so; then writes and ends when a line comes.
PROCESS = """
import sys, time
from pathlib import Path
from keras_gpukit.distributed.clusters import this_worker
from keras_gpukit.saved_runs import writing
from keras_gpukit.saved_runs.writing import run_log

writing.FLUSH_EVERY_S = 0.001
log = run_log.RunLog(Path(sys.argv[1]), this_worker())
while not log.opening_cpu_s:
    time.sleep(0.01)
print("open", flush=True)
sys.stdin.readline()
for number in range(300):
    log.write_record(sys.argv[2], {"number": number, "padding": "x" * 5_000})
log.close()
"""
WITHOUT_LOCKS = "import sys; sys.modules['fcntl'] = None\n"


def start(log_dir: Path, name: str, code: str = PROCESS, **variables: str) -> subprocess.Popen[str]:
    """A process that has opened its log."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(log_dir), name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(**variables),
    )
    assert process.stdout.readline() == "open\n"
    return process


def write_together(*processes: subprocess.Popen[str]) -> None:
    """Has them write at the same time, and waits for their end."""
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        process.communicate(timeout=60)
        assert process.returncode == 0


def tf_config(index: int) -> str:
    cluster = {"worker": ["a:1", "b:1"]}
    return json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})


def kinds(path: Path) -> list[str]:
    return [json.loads(line)["kind"] for line in path.read_text().splitlines()]


def event_folders(log_dir: Path) -> set[str]:
    return {path.parent.relative_to(log_dir).as_posix() for path in log_dir.rglob("events.*")}


def test_workers_of_one_run_have_a_record_each_and_in_a_second_run_are_the_same(tmp_path):
    logs = tmp_path / "logs"
    for run in range(2):
        write_together(*(start(logs, f"of{i}", TF_CONFIG=tf_config(i)) for i in range(2)))
        for index in range(2):
            its = ["run", *[f"of{index}"] * 300]
            assert kinds(logs / "gpukit" / f"run-{index}.jsonl") == (1 + run) * its
        assert event_folders(logs / "gpukit") == {".", "run-1"}
    runs = {run.name: run.worker for run in load_report(logs).runs}
    expected = {f"logs, worker {index}": Worker("worker", index, 2) for index in range(2)}
    assert runs == {
        f"{name}{again}": its for name, its in expected.items() for again in ("", " #2")
    }


def test_a_second_process_has_its_own_record_until_the_first_ends(tmp_path):
    first, second = start(tmp_path, "first"), start(tmp_path, "second")
    write_together(first, second)
    write_together(start(tmp_path, "third"))
    folder = tmp_path / "gpukit"
    assert kinds(folder / "run.jsonl") == ["run", *["first"] * 300, "run", *["third"] * 300]
    assert kinds(folder / "run.2.jsonl") == ["run", *["second"] * 300]
    report = load_report(tmp_path)
    name = tmp_path.name
    assert [run.name for run in report.runs] == [f"{name} #2", f"{name}, process 2", name]
    assert [run.notes for run in report.runs] == [()] * 3
    assert event_folders(folder) == {".", "run.2"}


def test_a_killed_process_leaves_its_record_to_the_next(tmp_path):
    killed = start(tmp_path, "killed")
    killed.kill()
    killed.communicate()
    write_together(start(tmp_path, "next"))
    assert kinds(tmp_path / "gpukit" / "run.jsonl")[-1] == "next"
    assert not (tmp_path / "gpukit" / "run.2.jsonl").exists()


def test_without_locks_lines_are_whole_nevertheless(tmp_path):
    both = [start(tmp_path, name, WITHOUT_LOCKS + PROCESS) for name in ("one", "two")]
    write_together(*both)
    assert sorted(kinds(tmp_path / "gpukit" / "run.jsonl")) == sorted(
        ["run"] * 2 + ["one"] * 300 + ["two"] * 300
    )


def test_a_process_forked_during_a_run_does_not_keep_its_record(tmp_path):
    """Workers of a data loader may live on after the `fit` in which they were forked."""
    code = """
import os, signal, sys, time
from pathlib import Path
from keras_gpukit.saved_runs.writing.run_log import RunLog

log = RunLog(Path(sys.argv[1]))
while not log.opening_cpu_s:
    time.sleep(0.01)
child = os.fork()
if not child:
    signal.pause()
log.close()
RunLog(Path(sys.argv[1])).close()
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
"""
    command = [sys.executable, "-c", code, str(tmp_path)]
    subprocess.run(command, env=environment(), check=True, timeout=60)
    assert kinds(tmp_path / "gpukit" / "run.jsonl") == ["run", "run"]
