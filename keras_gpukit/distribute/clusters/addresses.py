"""Addresses of tasks: checked, shared out over task types, and with ports that do not collide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from keras_gpukit.distribute.clusters.environment import Variables, wrong
from keras_gpukit.errors import ClusterError
from keras_gpukit.records.cluster import Cluster

ADDRESSES = "GPUKIT_ADDRESSES"
PARAMETER_SERVERS = "GPUKIT_PARAMETER_SERVERS"
PORT = "GPUKIT_PORT"

# Above the ports of common services, below those that Kubernetes (30000) and Linux (32768) assign.
FIRST_PORT, LAST_PORT = 10_000, 30_000
PORTS_PER_JOB = 64  # as many tasks as one machine may run without reaching into the next job's
MOST_PORTS = 2_048  # no machine runs more tasks of one job


def first_port(variables: Variables, job: int) -> int:
    """Returns the port of task 0: `GPUKIT_PORT`, or one that is the job's.

    Jobs with neighbouring numbers get ports next to each other, so that two jobs on one machine
    differ until the numbers are 312 apart.

    Args:
        variables: Where `GPUKIT_PORT` may be set.
        job: A number that every task of the job knows, and other jobs do not share.

    Raises:
        ClusterError: If `GPUKIT_PORT` is not a port.
    """
    if variables.get(PORT) is None:
        return FIRST_PORT + job % ((LAST_PORT - FIRST_PORT) // PORTS_PER_JOB) * PORTS_PER_JOB
    advice = "Set it to the first of as many free ports as a machine has tasks, or unset it."
    port = variables.whole_number(PORT, advice, least=1)
    if port > 65_535:
        raise wrong(PORT, str(port), "must be at most 65535", advice)
    return port


def with_ports(hosts: Sequence[str], first: int) -> tuple[str, ...]:
    """Gives each task a port of its own, since tasks may share a machine.

    Args:
        hosts: The host of each task.
        first: The port of the first task.
    """
    return tuple(f"{host}:{first + rank % MOST_PORTS}" for rank, host in enumerate(hosts))


def given_addresses(variables: Variables, size: int) -> tuple[str, ...] | None:
    """Returns the addresses that `GPUKIT_ADDRESSES` gives; None where it is not set.

    Args:
        variables: Its value has one "host:port" for each task, separated by commas, or a single
            one in which `{index}` stands for the number of the task.
        size: How many tasks there are.

    Raises:
        ClusterError: If there are not as many, or one has no port.
    """
    value = variables.get(ADDRESSES)
    if value is None:
        return None
    advice = "Set it to one host:port for each process, in order of rank, separated by commas."
    if "{index}" in value and "," not in value:
        addresses = tuple(value.replace("{index}", str(index)) for index in range(size))
    else:
        addresses = tuple(each.strip() for each in value.split(","))
    if len(addresses) != size:
        raise wrong(ADDRESSES, value, f"must have an address for each of {size} processes", advice)
    check_addresses(ADDRESSES, {"task": addresses}, advice)
    return addresses


def check_addresses(name: str, by_type: Mapping[str, Sequence[str]], advice: str) -> None:
    """Checks that each address is "host:port", and is given once.

    Args:
        name: The variable that they come from.
        by_type: The addresses of each task type.
        advice: What to do where one is wrong.

    Raises:
        ClusterError: If one is wrong.
    """
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


def cluster_of(
    kind: str, source: str, addresses: Sequence[str], rank: int, variables: Variables
) -> Cluster:
    """Shares tasks out over task types: all are workers, unless there are parameter servers.

    With parameter servers, task 0 is the chief that coordinates, the last tasks are the servers
    and those between are the workers.

    Args:
        kind: Of the cluster.
        source: Of the cluster.
        addresses: Of every task, in order of rank.
        rank: Which task this process is.
        variables: Where `GPUKIT_PARAMETER_SERVERS` may be set.

    Raises:
        ClusterError: If no worker is left next to the parameter servers.
    """
    servers = 0
    advice = "Set it to the number of parameter servers, or unset it for workers only."
    if variables.get(PARAMETER_SERVERS) is not None:
        servers = variables.whole_number(PARAMETER_SERVERS, advice)
    if servers and len(addresses) < servers + 2:
        accepted = f"must leave a chief and a worker of {len(addresses)} tasks"
        raise wrong(PARAMETER_SERVERS, str(servers), accepted, advice)
    sizes = {"worker": len(addresses)}
    if servers:
        sizes = {"chief": 1, "worker": len(addresses) - servers - 1, "ps": servers}
    by_type: dict[str, tuple[str, ...]] = {}
    start, own = 0, ("worker", rank)
    for task_type, size in sizes.items():
        by_type[task_type] = tuple(addresses[start : start + size])
        if start <= rank < start + size:
            own = (task_type, rank - start)
        start += size
    return Cluster(kind, by_type, *own, variables=variables.used, source=source)


def unknown_addresses(source: str, known: str, variables: Variables) -> ClusterError:
    """Returns the error for processes whose addresses no variable gives.

    Args:
        source: What started them.
        known: What the variables do give, in a sentence.
        variables: Those read so far.
    """
    seen = ", ".join(f"{name}={value!r}" for name, value in variables.used.items())
    return ClusterError(
        f"{source} says how many processes there are, and not where. {known} Set `{ADDRESSES}` to "
        "one host:port for each process, in order of rank, separated by commas, such as "
        f"{ADDRESSES}=node1:12345,node2:12345. Received: {ADDRESSES}=None, with {seen}"
    )
