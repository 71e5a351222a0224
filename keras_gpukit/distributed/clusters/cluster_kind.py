"""Base class of the kinds of cluster environments: variables with clear errors, and addresses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from keras_gpukit.errors import ClusterError
from keras_gpukit.records.cluster import Cluster


class Variables:
    """Reads environment variables, and remembers which; an empty one counts as unset."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.used: dict[str, str] = {}
        self.environment = environment

    def get(self, name: str) -> str | None:
        """Returns a variable's value without surrounding spaces; None if it is not set."""
        value = self.environment.get(name, "").strip()
        if not value:
            return None
        self.used[name] = value
        return value

    def require(self, name: str, advice: str) -> str:
        """Returns the value of a variable that must be set."""
        value = self.get(name)
        if value is None:
            seen = ", ".join(f"{variable}={value!r}" for variable, value in self.used.items())
            raise ClusterError(
                f"`{name}` is not set, and without it the cluster that the environment describes "
                f"is not known. {advice} Received: {name}={self.environment.get(name)!r}"
                + (f", with {seen}" if seen else "")
            )
        return value

    def whole_number(self, name: str, advice: str, *, least: int = 0) -> int:
        """Returns the value of a variable that must be a whole number."""
        value = self.require(name, advice)
        if not (value.isascii() and value.isdigit()) or int(value) < least:
            raise wrong(name, value, f"must be a whole number from {least} on", advice)
        return int(value)


def wrong(name: str, value: str, accepted: str, advice: str) -> ClusterError:
    """Returns the error for a variable that has a wrong value."""
    return ClusterError(f"`{name}` {accepted}. {advice} Received: {name}={value!r}")


class ClusterKind(NamedTuple):
    """One kind of environment that starts processes which train together.

    `detects` says whether variables are of this kind, even if some are missing. `read` returns the
    cluster; None if this process is the only one in it. It raises a `ClusterError` that names the
    variable which is missing or wrong. Both only read variables: no file, network or program.
    """

    detects: Callable[[Mapping[str, str]], bool]
    read: Callable[[Variables], Cluster | None]


ADDRESSES = "GPUKIT_ADDRESSES"
PARAMETER_SERVERS = "GPUKIT_PARAMETER_SERVERS"
PORT = "GPUKIT_PORT"

# Above the ports of common services, below those that Kubernetes (30000) and Linux (32768) assign.
# A job gets a range of `PORTS_PER_JOB` ports.
FIRST_PORT, LAST_PORT = 10_000, 30_000
PORTS_PER_JOB = 64  # more tasks on one machine would use ports of the next job
MOST_PORTS = 2_048  # no machine runs more tasks of one job


def first_port(variables: Variables, job: int) -> int:
    """Returns the port of task 0: `GPUKIT_PORT`, or one derived from the job's number.

    Two jobs on one machine get different ports unless their numbers differ by a multiple of 312.
    """
    if variables.get(PORT) is None:
        return FIRST_PORT + job % ((LAST_PORT - FIRST_PORT) // PORTS_PER_JOB) * PORTS_PER_JOB
    advice = "Set it to the first of as many free ports as a machine has tasks, or unset it."
    port = variables.whole_number(PORT, advice, least=1)
    if port > 65_535:
        raise wrong(PORT, str(port), "must be at most 65535", advice)
    return port


def with_ports(hosts: Sequence[str], first: int) -> tuple[str, ...]:
    """Returns the address of each task; each gets its own port, since tasks may share a machine."""
    return tuple(f"{host}:{first + rank % MOST_PORTS}" for rank, host in enumerate(hosts))


def given_addresses(variables: Variables, size: int) -> tuple[str, ...] | None:
    """Returns the addresses in `GPUKIT_ADDRESSES`; None if the variable is not set.

    The variable has one "host:port" for each task, separated by commas, or a single one in which
    `{index}` stands for the number of the task.
    """
    value = variables.get(ADDRESSES)
    if value is None:
        return None
    advice = "Set it to one host:port for each process, in order of rank, separated by commas."
    if "{index}" in value and "," not in value:
        addresses = tuple(value.replace("{index}", str(index)) for index in range(size))
    else:
        addresses = tuple(address.strip() for address in value.split(","))
    if len(addresses) != size:
        raise wrong(ADDRESSES, value, f"must have an address for each of {size} processes", advice)
    check_addresses(ADDRESSES, {"task": addresses}, advice)
    return addresses


def check_addresses(name: str, by_type: Mapping[str, Sequence[str]], advice: str) -> None:
    """Checks that each address is "host:port" and appears only once."""
    seen: dict[str, str] = {}
    for task_type, addresses in by_type.items():
        for index, address in enumerate(addresses):
            task = f"{task_type} {index}"
            host, _, port = address.rpartition(":")
            if not host or not port.isdigit() or not 0 < int(port) < 65_536:
                raise wrong(name, address, f"must give {task} an address as host:port", advice)
            if address in seen:
                accepted = f"must give each task its own address; {seen[address]} has it as well"
                raise wrong(name, address, f"{accepted} as {task}", advice)
            seen[address] = task


def read_ranks(
    kind: str,
    source: str,
    variables: Variables,
    names: tuple[str, str],
    advices: tuple[str, str],
    find: Callable[[int, int], tuple[str, ...]],
) -> Cluster | None:
    """Returns the cluster of processes that know their rank and size; None if there is only one.

    `names` are the variables of rank and size, `advices` say how to set the two. Where
    `GPUKIT_ADDRESSES` gives no addresses, `find` does, from rank and size.
    """
    size = variables.whole_number(names[1], advices[1], least=1)
    if size == 1:
        return None
    rank = variables.whole_number(names[0], advices[0])
    if rank >= size:
        raise wrong(names[0], str(rank), f"must be below `{names[1]}`, which is {size}", advices[0])
    addresses = given_addresses(variables, size) or find(rank, size)
    advice = "Set it to the number of parameter servers, or unset it for workers only."
    is_given = variables.get(PARAMETER_SERVERS) is not None
    servers = variables.whole_number(PARAMETER_SERVERS, advice) if is_given else 0
    if servers and size < servers + 2:
        accepted = f"must leave a chief and a worker of {size} tasks"
        raise wrong(PARAMETER_SERVERS, str(servers), accepted, advice)
    # With parameter servers, task 0 is the chief that coordinates, and the last are the servers.
    tasks = [("worker", index) for index in range(size)]
    if servers:
        workers = [("worker", index) for index in range(size - servers - 1)]
        tasks = [("chief", 0), *workers, *(("ps", index) for index in range(servers))]
    by_type: dict[str, tuple[str, ...]] = {}
    for (task_type, _), address in zip(tasks, addresses, strict=True):
        by_type[task_type] = (*by_type.get(task_type, ()), address)
    return Cluster(kind, by_type, *tasks[rank], variables=variables.used, source=source)


def unknown_addresses(source: str, known: str, variables: Variables) -> ClusterError:
    """Returns the error for processes whose addresses no variable gives."""
    seen = ", ".join(f"{name}={value!r}" for name, value in variables.used.items())
    return ClusterError(
        f"{source} says how many processes there are, but not where. {known} Set `{ADDRESSES}` to "
        "one host:port for each process, in order of rank, separated by commas, such as "
        f"{ADDRESSES}=node1:12345,node2:12345. Received: {ADDRESSES}=None, with {seen}"
    )
