"""Whatever ends the launcher, none of its processes is left. The scripts need no framework."""

import os
import pty
import signal

import pytest
from helpers.launches import Launch, left_of, wait_for
from helpers.screens import displayed

pytestmark = pytest.mark.heavy
TRIALS = 5

# Ignores every signal that can be ignored, and has children: one in its process group, one in a
# session of its own, and one whose parent has ended.
STUBBORN = """
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if os.fork() == 0:
        time.sleep(100)
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        time.sleep(100)
    ready()
    time.sleep(100)
    """


def test_the_launcher_is_killed_and_no_orphan_is_left(tmp_path):
    launches = []
    for trial in range(TRIALS):
        folder = tmp_path / str(trial)
        folder.mkdir()
        launches.append(Launch(folder, STUBBORN, "--workers=2", "--grace=0.2"))
        launches[-1].start()
    for launch in launches:
        launch.workers(ready=2)
    # The launcher; for each worker a supervisor, itself, a child and what a child left.
    wait_for(lambda: len(left_of(launches)) >= TRIALS * (1 + 2 * 4))
    for launch in launches:
        launch.process.kill()
    wait_for(lambda: not left_of(launches))
    for launch in launches:
        launch.process.communicate()


@pytest.mark.parametrize(
    ("source", "code", "said"),
    [
        (STUBBORN, 128 + signal.SIGHUP, ""),
        ("ready(); time.sleep(100)", 137, "worker 1 was killed by SIGKILL"),
    ],
    ids=["the launcher gets a signal", "a supervisor is killed"],
)
def test_a_signal_and_the_death_of_a_keeper_end_all(tmp_path, source, code, said):
    launch = Launch(tmp_path, source, "--workers=2", "--grace=0.2")
    process = launch.start()
    workers = launch.workers(ready=2)
    workers[1].parent().kill() if said else process.send_signal(signal.SIGHUP)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code
    assert said in errors
    assert launch.left() == []


def test_what_a_worker_leaves_behind_ends_with_it(tmp_path):
    source = "subprocess.Popen(['sleep', '100'], start_new_session=True); print('done')"
    assert Launch(tmp_path, source, "--workers=2").run().stdout.count("done") == 2


class InTerminal:
    """A launcher that is the foreground process of a terminal, as in a shell."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self._output = b""
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(launch.folder)
            os.execve(launch.command[0], launch.command, launch.environment)

    def read(self, until: str | None = None) -> None:
        """Reads the terminal until a text is in it, or until it is closed."""
        while until is None or until not in self.raw:
            try:
                self._output += os.read(self.terminal, 1 << 16)
            except OSError:
                break

    def wait(self) -> int:
        """Waits for the launcher's end, and returns its exit code."""
        self.read()
        os.close(self.terminal)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    @property
    def raw(self) -> str:
        return self._output.decode(errors="replace")

    @property
    def displayed(self) -> list[str]:
        return displayed(self.raw)


@pytest.mark.parametrize(
    ("after", "code", "last"), [("raise", 130, "KeyboardInterrupt"), ("print('saved')", 0, "saved")]
)
def test_ctrl_c_is_passed_on_and_ends_all_and_a_script_that_finishes_has_succeeded(
    tmp_path, after, code, last
):
    source = f"""
        try:
            ready()
            time.sleep(100)
        except KeyboardInterrupt:
            {after}
        """
    shown = InTerminal(Launch(tmp_path, source, "--workers=2"))
    shown.launch.workers(ready=2)
    os.write(shown.terminal, b"\x03")
    assert shown.wait() == code
    assert shown.launch.left() == []
    assert {f"[worker {index}] {last}" for index in (0, 1)} <= {*shown.displayed}


def test_stubborn_processes_are_killed_by_a_second_ctrl_c(tmp_path):
    shown = InTerminal(Launch(tmp_path, STUBBORN, "--workers=2", "--grace=50"))
    shown.launch.workers(ready=2)
    os.write(shown.terminal, b"\x03")
    shown.read(until="again to kill")
    os.write(shown.terminal, b"\x03")
    assert shown.wait() == 130
    assert shown.launch.left() == []


def test_the_chiefs_bar_is_drawn_as_if_it_were_alone(tmp_path):
    source = """
        for step in range(1, 6):
            print(f"\\b\\b\\b\\b\\r{step}/5 \\u2501 0s 5ms/step - loss: 1.0", end="", flush=True)
            if index == 1 and step == 3:
                print("\\na line of its own", file=sys.stderr)
        print()
        import shutil
        print("columns", shutil.get_terminal_size().columns)
        """
    shown = InTerminal(Launch(tmp_path, source, "--workers=2"))
    shown.wait()
    lines = [line for line in shown.displayed if line]
    assert "[worker 1] a line of its own" in lines
    assert [line for line in lines if "/5" in line] == ["[worker 0] 5/5 ━ 0s 5ms/step - loss: 1.0"]
    assert "[worker 1] columns 69" in lines
