"""Processes on this machine that form a cluster."""

import json
import time
from dataclasses import dataclass
from pathlib import Path

from helpers.prepared import Prepared
from helpers.processes import environment, free_ports


@dataclass
class Task:
    role: str
    index: int
    process: Prepared
    log: Path

    @property
    def output(self) -> str:
        return self.log.read_text()


class LocalCluster:
    """Runs a script in several processes with `TF_CONFIG`; all are ended on leaving.

    The folder takes a log of each. With any parameter server there is a chief.
    """

    def __init__(self, script, arguments, folder, *, workers, servers=0, **variables):
        addresses = {"worker": free_addresses(workers)}
        if servers:
            addresses |= {"ps": free_addresses(servers), "chief": free_addresses(1)}
        self.addresses = addresses
        folder.mkdir(parents=True, exist_ok=True)
        self.tasks = []
        for role, index in [(r, i) for r in addresses for i in range(len(addresses[r]))]:
            config = {"cluster": addresses, "task": {"type": role, "index": index}}
            log = folder / f"{role}{index}.log"
            with log.open("w") as stream:
                process = Prepared(
                    script,
                    *arguments,
                    env=environment(TF_CONFIG=json.dumps(config), **variables),
                    stdout=stream.fileno(),
                    stderr=stream.fileno(),
                )
            self.tasks.append(Task(role, index, process, log))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for task in self.tasks:
            task.process.kill()
            task.process.wait()

    def task(self, role, index):
        return next(each for each in self.tasks if (each.role, each.index) == (role, index))

    def finish(self, limit_s=240.0):
        """Waits for all, and returns their exit statuses."""
        end = time.monotonic() + limit_s
        return [task.process.wait(max(0.1, end - time.monotonic())) for task in self.tasks]

    def outputs(self):
        """What all have printed, for a test that fails."""
        return "\n".join(f"--- {t.role} {t.index}\n{t.output[-3000:]}" for t in self.tasks)


def free_addresses(count):
    """Returns addresses at which nothing listens."""
    return [f"127.0.0.1:{port}" for port in free_ports(count)]
