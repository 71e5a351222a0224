"""A real Slurm of two nodes on this machine: its own controller, daemons, keys and ports."""

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.processes import environment, free_ports, wait_for

PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "srun", "scontrol", "sinfo")
NODES = ("n1", "n2")
DEADLINE_S = 240
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "NODE_FAIL", "TIMEOUT", "OUT_OF_MEMORY")
# The times are short: how long Slurm waits for what does not respond is not what is tested.
CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
SlurmUser=root
SlurmdUser=root
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
FirstJobId={first_job}
SchedulerParameters=bf_interval=1,sched_interval=2
KillWait=2
MessageTimeout=5
SlurmdTimeout=120
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=4 State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def require_slurm() -> None:
    """Skips a test where there is no Slurm; fails it there if `GPUKIT_REQUIRE_SLURM` is 1."""
    path = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin"))
    missing = [each for each in PROGRAMS if shutil.which(each, path=path) is None]
    reason = f"needs {', '.join(missing)}: apt-get install slurm-wlm munge" if missing else None
    if reason is None and os.getuid() != 0:
        reason = "needs root, to start Slurm's daemons"
    if reason is not None:
        if os.environ.get("GPUKIT_REQUIRE_SLURM") == "1":
            pytest.fail(reason)
        pytest.skip(reason)


class Slurm:
    """A running Slurm, with its state, keys and logs in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = environment(
            SLURM_CONF=str(folder / "slurm.conf"),
            PATH=os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin")),
        )
        self._daemons: dict[str, subprocess.Popen] = {}

    def start(self) -> None:
        """Starts all daemons, and waits until both nodes are idle."""
        (self.folder / "state").mkdir(parents=True)
        # Tests in another process may have a Slurm too, and the ports of jobs go by their numbers.
        first_job = random.randrange(1, 60_000)
        host = socket.gethostname()
        values = {
            "host": host,
            "folder": self.folder,
            "ports": free_ports(3),
            "first_job": first_job,
        }
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(**values))
        self._start_munge()
        self._daemon("slurmctld", "slurmctld", "-D")
        for node in NODES:
            self.start_node(node)
        wait_for(lambda: self.states() == dict.fromkeys(NODES, "idle"), what="idle nodes")

    def _start_munge(self) -> None:
        (self.folder / "munge.key").write_bytes(os.urandom(128))
        (self.folder / "munge.key").chmod(0o400)
        self.folder.chmod(0o755)
        names = ("socket", "pid-file", "log-file", "seed-file", "key-file")
        files = {name: f"munge.{name.removesuffix('-file')}" for name in names}
        options = [f"--{name}={self.folder / file}" for name, file in files.items()]
        self._daemon("munged", "munged", "--foreground", "--force", *options)
        wait_for((self.folder / "munge.socket").exists, what="munge")

    def start_node(self, node: str) -> None:
        (self.folder / f"spool-{node}").mkdir(exist_ok=True)
        self._daemon(node, "slurmd", "-D", "-N", node)

    def _daemon(self, name: str, *command: str) -> None:
        with open(self.folder / f"{name}.log", "ab") as log:
            self._daemons[name] = subprocess.Popen(
                command, stdout=log, stderr=log, env=self.environment, start_new_session=True
            )

    def kill_node(self, node: str, job: int) -> None:
        """Ends a node as a power cut does: its daemon, and all that a job runs on it."""
        daemon = self._daemons.pop(node)
        daemon.kill()
        daemon.wait()
        for pid in self.processes(job, node):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def processes(self, job: int, node: str) -> list[int]:
        """The processes of a job's steps on a node, and the daemons over them."""
        variables = {"SLURM_CONF": self.environment["SLURM_CONF"], "SLURMD_NODENAME": node}
        variables["SLURM_JOB_ID"] = str(job)
        marks = [f"{name}={value}".encode() for name, value in variables.items()]
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, ValueError, IndexError):
                its = (folder / "environ").read_bytes().split(b"\0")
                if all(mark in its for mark in marks):
                    parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                    if "slurmstepd" in Path(f"/proc/{parent}/cmdline").read_text():
                        found.append(parent)
                    found.append(int(folder.name))
        return found

    def run(self, *command: str, cwd: Path | None = None) -> str:
        """Runs one of Slurm's programs, and returns its output."""
        finished = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env=self.environment,
            cwd=cwd,
            timeout=DEADLINE_S,
            check=False,
        )
        assert finished.returncode == 0, finished.stderr
        return finished.stdout

    def states(self) -> dict[str, str]:
        """Each node's state; none where the controller does not answer yet."""
        try:
            lines = self.run("sinfo", "--noheader", "--Node", "--format=%N %t").splitlines()
        except AssertionError:
            return {}
        return dict(line.split() for line in lines)

    def state_of(self, job: int) -> str:
        """A job's state, such as "RUNNING"."""
        fields = self.run("scontrol", "show", "job", str(job), "--oneliner").split()
        return next(field for field in fields if field.startswith("JobState="))[9:]

    def wait_for_end(self, job: int, deadline_s: float = DEADLINE_S) -> str:
        """Waits until a job has ended; returns how."""
        wait_for(lambda: self.state_of(job) in ENDED, deadline_s, f"the end of job {job}")
        return self.state_of(job)

    def stop(self) -> None:
        """Ends all jobs and daemons."""
        if "slurmctld" in self._daemons:
            with contextlib.suppress(AssertionError):
                self.run("scancel", "--user=root", "--signal=KILL", "--full")
                self.run("scancel", "--user=root")
            with contextlib.suppress(AssertionError):
                wait_for(lambda: not self.run("squeue", "--noheader").strip(), what="the jobs' end")
        for daemon in reversed(self._daemons.values()):
            daemon.terminate()
        for daemon in self._daemons.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                daemon.wait(10)
            daemon.kill()
            daemon.wait()


@contextlib.contextmanager
def running_slurm(folder: Path) -> Iterator[Slurm]:
    """A Slurm of two nodes."""
    require_slurm()
    slurm = Slurm(folder)
    try:
        slurm.start()
        yield slurm
    finally:
        slurm.stop()
