"""Clusters as environment variables describe them: those read, and those refused."""

from __future__ import annotations

import json
import os

import pytest
from distributed.environments import (
    FOUR,
    INDEXED_JOB,
    JAX_TRAIN_JOB,
    MPICH,
    OPEN_MPI,
    POD,
    SLURM_BATCH,
    SLURM_ONE_TASK,
    SLURM_TASK,
    SLURM_UNEVEN,
    TF_JOB,
    TORCH_TRAIN_JOB,
    TORCHRUN,
    WORKERS,
    tf_config,
    without,
)

from keras_gpukit.distributed.clusters import read_cluster
from keras_gpukit.errors import ClusterError

PS = {"chief": ["x:1"], "worker": ["a:1", "b:1"], "ps": ["p:1"]}


def slurm(job: int, step: int, *hosts: str) -> str:
    """Each task's address: 312 blocks of 64 ports from 10000 on, a task's port by its rank."""
    first = 10_000 + (job + 101 * step) % 312 * 64
    return ",".join(f"{host}:{first + rank}" for rank, host in enumerate(hosts))


READ = {
    "TF_CONFIG: a worker": (
        tf_config(WORKERS, "worker", 2),
        "TF_CONFIG worker 2, 2 of 3",
        "a:1,b:1,c:1",
    ),
    "TF_CONFIG: index in quotes": (
        tf_config(WORKERS, "worker", "1"),
        "TF_CONFIG worker 1, 1 of 3",
        "a:1,b:1,c:1",
    ),
    "TF_CONFIG: parameter servers": (
        tf_config(PS, "ps", 0),
        "TF_CONFIG ps 0, None of 2",
        {"chief": "x:1", "worker": "a:1,b:1", "ps": "p:1"},
    ),
    "TF_CONFIG: an evaluator that has no server": (
        tf_config(WORKERS, "evaluator", 0),
        "TF_CONFIG evaluator 0, None of 3",
        "a:1,b:1,c:1",
    ),
    "Slurm: a task on each of two nodes": (
        SLURM_TASK,
        "Slurm worker 1, 1 of 2",
        slurm(2, 0, "n1", "n2"),
    ),
    "Slurm: tasks of one node, uneven": (
        SLURM_UNEVEN,
        "Slurm worker 2, 2 of 4",
        slurm(4711, 1, "gpu-08", "gpu-08", "gpu-10", "big"),
    ),
    "Slurm: cyclic": (
        {**SLURM_UNEVEN, "SLURM_DISTRIBUTION": "cyclic:block", "SLURM_NODEID": "2"},
        "Slurm worker 2, 2 of 4",
        slurm(4711, 1, "gpu-08", "gpu-10", "big", "gpu-08"),
    ),
    "Slurm: nodes reached at other addresses": (
        {**SLURM_TASK, "GPUKIT_NODE_ADDRESSES": "n1=127.0.0.1,n2=127.0.0.1", "GPUKIT_PORT": "7000"},
        "Slurm worker 1, 1 of 2",
        "127.0.0.1:7000,127.0.0.1:7001",
    ),
    "Slurm: a parameter server": (
        {**SLURM_UNEVEN, "GPUKIT_PARAMETER_SERVERS": "1", "GPUKIT_ADDRESSES": FOUR},
        "Slurm worker 1, None of 2",
        {"chief": "node1:7000", "worker": "node1:7001,node2:7000", "ps": "node2:7001"},
    ),
    "Slurm: srun sets MPICH's variables too": (
        {**SLURM_TASK, "PMI_RANK": "1", "PMI_SIZE": "2"},
        "Slurm worker 1, 1 of 2",
        slurm(2, 0, "n1", "n2"),
    ),
    "Kubernetes: Kubeflow TFJob": (
        TF_JOB,
        "Kubernetes worker 1, 2 of 3",
        {
            "chief": "train-chief-0.team.svc:2222",
            "worker": "train-worker-0.team.svc:2222,train-worker-1.team.svc:2222",
        },
    ),
    "Kubernetes: Kubeflow TrainJob with the torch policy": (
        TORCH_TRAIN_JOB,
        "Kubernetes worker 1, 1 of 2",
        "train-node-0-0.train:29500,train-node-0-1.train:29500",
    ),
    "Kubernetes: Kubeflow TrainJob with the jax policy": (
        JAX_TRAIN_JOB,
        "Kubernetes worker 0, 0 of 3",
        ",".join(f"train-node-0-{index}.train:29500" for index in range(3)),
    ),
    "Kubernetes: Indexed Job": (
        INDEXED_JOB,
        "Kubernetes worker 2, 2 of 3",
        "train-0.train:2222,train-1.train:2222,train-2.train:2222",
    ),
    "MPI: Open MPI on one machine": (
        {**OPEN_MPI, "GPUKIT_PORT": "7000"},
        "MPI worker 1, 1 of 2",
        "localhost:7000,localhost:7001",
    ),
    "MPI: MPICH on two machines": (
        {**MPICH, "GPUKIT_ADDRESSES": "node1:7000, node2:7000"},
        "MPI worker 0, 0 of 2",
        "node1:7000,node2:7000",
    ),
    "MPI: torchrun on two machines": (
        {**TORCHRUN, "GPUKIT_ADDRESSES": FOUR},
        "MPI worker 1, 1 of 4",
        FOUR,
    ),
    "MPI: mpirun within a job step of Slurm": (
        {**SLURM_TASK, **OPEN_MPI, "OMPI_COMM_WORLD_SIZE": "4", "GPUKIT_ADDRESSES": FOUR},
        "MPI worker 1, 1 of 4",
        FOUR,
    ),
    "MPI: mpirun in a batch script of Slurm": (
        {**SLURM_BATCH, **OPEN_MPI, "GPUKIT_PORT": "7000"},
        "MPI worker 1, 1 of 2",
        "localhost:7000,localhost:7001",
    ),
}


@pytest.mark.parametrize(("environment", "place", "addresses"), READ.values(), ids=READ)
def test_a_cluster_is_read_from_its_variables(environment, place, addresses):
    by_type = {"worker": addresses} if isinstance(addresses, str) else addresses
    expected = {role: tuple(hosts.split(",")) for role, hosts in by_type.items()}
    cluster = read_cluster(environment)
    worker = cluster.worker
    read = f"{cluster.kind} {cluster.task_type} {cluster.task_index}, "
    assert read + f"{worker.index} of {worker.count}" == place
    assert cluster.addresses == expected
    assert cluster.variables.items() <= environment.items()
    assert cluster.variables
    assert json.loads(cluster.tf_config()) == {
        "cluster": {role: list(hosts) for role, hosts in expected.items()},
        "task": {"type": cluster.task_type, "index": cluster.task_index},
    }


ALONE = {
    "no variables": {},
    "TF_CONFIG: empty": {"TF_CONFIG": ""},
    "TF_CONFIG: an empty object": {"TF_CONFIG": "{}"},
    "TF_CONFIG: one worker": tf_config({"worker": ["a:1"]}),
    "Slurm: a job step of one task": SLURM_ONE_TASK,
    "Slurm: a batch script of one task": {
        **SLURM_BATCH,
        "SLURM_NTASKS": "1",
        "SLURM_JOB_NUM_NODES": "1",
    },
    "Kubernetes: a pod of no Job": POD,
    "Kubernetes: a TrainJob of one pod": {
        **TORCH_TRAIN_JOB,
        "PET_NNODES": "1",
        "PET_NODE_RANK": "0",
    },
    "Kubernetes: pods that each train alone": {**INDEXED_JOB, "GPUKIT_WORKERS": "1"},
    "MPI: one process": {**OPEN_MPI, "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"},
}


@pytest.mark.parametrize("case", ALONE)
def test_a_process_of_its_own_is_no_cluster(case):
    assert read_cluster(ALONE[case]) is None


# What is wrong, the variable that the error must name, and words that say what to do.
REFUSED = [
    ({"TF_CONFIG": "{"}, "TF_CONFIG", "must be JSON"),
    ({"TF_CONFIG": "[]"}, "TF_CONFIG", 'object with a "cluster"'),
    ({"TF_CONFIG": json.dumps({"cluster": WORKERS})}, "TF_CONFIG", '"task"'),
    (tf_config(WORKERS, "worker", 3), "TF_CONFIG", "index below 3"),
    (tf_config(WORKERS, "worker", None), "TF_CONFIG", "whole number"),
    (tf_config(WORKERS, "chief", 0), "TF_CONFIG", "types (worker)"),
    (tf_config({"master": ["m:1"], **WORKERS}), "TF_CONFIG", '"master" is none'),
    (tf_config({"worker": ["a", "b:1"]}), "TF_CONFIG", "host:port"),
    (tf_config({"worker": ["a:1", "a:1"]}), "TF_CONFIG", "worker 0 has it"),
    (tf_config({"chief": ["x:1", "y:1"]}, "chief"), "TF_CONFIG", "one chief"),
    (tf_config({"worker": []}), "TF_CONFIG", "an address"),
    (SLURM_BATCH, "SLURM_NTASKS", "srun python"),
    (without(SLURM_BATCH, "SLURM_NTASKS", "SLURM_NPROCS"), "SLURM_JOB_NUM_NODES", "--nodes=1"),
    (without(SLURM_TASK, "SLURM_STEP_NUM_TASKS"), "SLURM_STEP_NUM_TASKS", "srun"),
    (without(SLURM_TASK, "SLURM_STEP_ID"), "SLURM_STEP_ID", "pass all SLURM_ variables"),
    (without(SLURM_TASK, "SLURM_STEP_NODELIST"), "SLURM_STEP_NODELIST", "srun"),
    ({**SLURM_TASK, "SLURM_PROCID": "2"}, "SLURM_PROCID", "below `SLURM_STEP_NUM_TASKS`"),
    ({**SLURM_TASK, "SLURM_PROCID": "one"}, "SLURM_PROCID", "whole"),
    ({**SLURM_TASK, "SLURM_STEP_NODELIST": "n[1-2"}, "SLURM_STEP_NODELIST", "list of nodes"),
    (
        {**SLURM_TASK, "SLURM_STEP_TASKS_PER_NODE": "2(x2)"},
        "SLURM_STEP_TASKS_PER_NODE",
        "2 tasks in all",
    ),
    ({**SLURM_UNEVEN, "SLURM_NODEID": "2"}, "SLURM_NODEID", "--distribution=block"),
    ({**SLURM_TASK, "SLURM_HET_SIZE": "2"}, "SLURM_HET_SIZE", "TF_CONFIG"),
    (
        {**SLURM_TASK, "GPUKIT_PARAMETER_SERVERS": "1"},
        "GPUKIT_PARAMETER_SERVERS",
        "a chief and a worker",
    ),
    ({**SLURM_TASK, "GPUKIT_PORT": "70000"}, "GPUKIT_PORT", "65535"),
    ({**SLURM_TASK, "GPUKIT_NODE_ADDRESSES": "n1"}, "GPUKIT_NODE_ADDRESSES", "node=address"),
    ({**TF_JOB, "TF_CONFIG": "{"}, "TF_CONFIG", "must be JSON"),
    (without(TORCH_TRAIN_JOB, "PET_NNODES"), "PET_NNODES", "PET_NODE_RANK"),
    ({**TORCH_TRAIN_JOB, "PET_NNODES": "1:4"}, "PET_NNODES", "whole number"),
    (without(TORCH_TRAIN_JOB, "PET_MASTER_ADDR"), "PET_MASTER_ADDR", "TrainJob sets it"),
    (
        {**JAX_TRAIN_JOB, "JAX_COORDINATOR_ADDRESS": "coordinator.train:29500"},
        "JAX_COORDINATOR_ADDRESS",
        "GPUKIT_ADDRESSES",
    ),
    (
        {**TORCH_TRAIN_JOB, "PET_MASTER_ADDR": "train-node-0-1.train"},
        "PET_MASTER_ADDR",
        "GPUKIT_ADDRESSES",
    ),
    (without(INDEXED_JOB, "GPUKIT_WORKERS"), "GPUKIT_WORKERS", "completions"),
    (without(INDEXED_JOB, "GPUKIT_ADDRESSES"), "GPUKIT_ADDRESSES", "host:port"),
    (
        without(INDEXED_JOB, "JOB_COMPLETION_INDEX"),
        "JOB_COMPLETION_INDEX",
        "completionMode: Indexed",
    ),
    (
        {**INDEXED_JOB, "JOB_COMPLETION_INDEX": "3"},
        "JOB_COMPLETION_INDEX",
        "below `GPUKIT_WORKERS`",
    ),
    ({**INDEXED_JOB, "GPUKIT_ADDRESSES": "train-{index}.train"}, "GPUKIT_ADDRESSES", "host:port"),
    (without(OPEN_MPI, "OMPI_COMM_WORLD_SIZE"), "OMPI_COMM_WORLD_SIZE", "set both or neither"),
    ({**OPEN_MPI, "OMPI_COMM_WORLD_SIZE": "4"}, "GPUKIT_ADDRESSES", "node1:12345"),
    (MPICH, "GPUKIT_ADDRESSES", "one host:port for each"),
    (TORCHRUN, "GPUKIT_ADDRESSES", "machine, node1"),
    (without(TORCHRUN, "RANK"), "RANK", "set both or neither"),
    ({**TORCHRUN, "RANK": "4"}, "RANK", "below `WORLD_SIZE`"),
    (
        {**TORCHRUN, "GPUKIT_ADDRESSES": "node1:7000,node2:7000"},
        "GPUKIT_ADDRESSES",
        "each of 4 processes",
    ),
]


@pytest.mark.parametrize(("environment", "name", "advice"), REFUSED)
def test_a_wrong_or_half_set_environment_is_an_error_that_names_the_variable(
    environment, name, advice
):
    with pytest.raises(ClusterError) as caught:
        read_cluster(environment)
    message = str(caught.value)
    received = message.rpartition("Received: ")[2]
    assert f"{name}=" in received
    assert advice in message


def test_reading_changes_no_variable(monkeypatch):
    for name, value in {**SLURM_TASK, "CUDA_VISIBLE_DEVICES": "0,1"}.items():
        monkeypatch.setenv(name, value)
    before = dict(os.environ)
    assert read_cluster(os.environ).kind == "Slurm"
    assert dict(os.environ) == before


def test_two_jobs_on_one_machine_get_different_ports():
    def ports(environment):
        (addresses,) = read_cluster(environment).addresses.values()
        return {int(address.rpartition(":")[2]) for address in addresses}

    taken = [ports({**SLURM_TASK, "SLURM_JOB_ID": str(job)}) for job in range(1000, 1312)]
    assert len(set().union(*taken)) == 2 * len(taken)
    steps = [ports({**SLURM_TASK, "SLURM_STEP_ID": str(step)}) for step in range(2)]
    assert not set.intersection(*steps)
    assert max(map(max, taken)) < 30_000


def test_a_cluster_says_in_a_line_what_it_is():
    assert str(read_cluster(INDEXED_JOB)) == (
        "Kubernetes Indexed Job: worker 2 at train-2.train:2222, of 3 worker"
    )
