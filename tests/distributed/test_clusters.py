"""Clusters as environment variables describe them: those read, and those refused.

Variables of Slurm were printed by tasks of Slurm 22.05; those of Open MPI, MPICH and torchrun, and
of Kubeflow's operators, follow their documentation and source.
"""

import json
import os

import pytest

from keras_gpukit.distributed.clusters import read_cluster
from keras_gpukit.distributed.clusters.slurm import expand_nodes, expand_tasks, node_of_each_task
from keras_gpukit.errors import ClusterError


def variables(printed: str) -> dict[str, str]:
    """What `env` printed, several variables on a line."""
    return dict(each.split("=", 1) for each in printed.split())


def without(environment: dict[str, str], *names: str) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name not in names}


def tf_config(cluster, task_type="worker", index=0, **others) -> dict[str, str]:
    config = {"cluster": cluster, "task": {"type": task_type, "index": index}, **others}
    return {"TF_CONFIG": json.dumps(config)}


WORKERS = {"worker": ["a:1", "b:1", "c:1"]}

# A batch script of two nodes, as it is before its first `srun`.
SLURM_BATCH = variables(
    "SLURM_JOB_ID=2 SLURM_JOB_NAME=train.sbatch SLURM_JOB_NODELIST=n[1-2] SLURM_JOB_NUM_NODES=2 "
    "SLURM_LOCALID=0 SLURM_NNODES=2 SLURM_NODEID=0 SLURM_NODE_ALIASES=(null) SLURM_NPROCS=2 "
    "SLURM_NTASKS=2 SLURM_PROCID=0 SLURM_TASKS_PER_NODE=1(x2) SLURMD_NODENAME=n1"
)
# The second of its tasks.
SLURM_TASK = SLURM_BATCH | variables(
    "SLURM_NODEID=1 SLURM_PROCID=1 SLURM_SRUN_COMM_HOST=127.0.0.1 SLURM_STEP_ID=0 "
    "SLURM_STEP_NODELIST=n[1-2] SLURM_STEP_NUM_NODES=2 SLURM_STEP_NUM_TASKS=2 "
    "SLURM_STEP_TASKS_PER_NODE=1(x2) SLURMD_NODENAME=n2"
)
# `srun -N1 -n1` within it.
SLURM_ONE_TASK = SLURM_BATCH | variables(
    "SLURM_DISTRIBUTION=cyclic SLURM_NTASKS=1 SLURM_STEP_ID=0 SLURM_STEP_NODELIST=n1 "
    "SLURM_STEP_NUM_TASKS=1 SLURM_STEP_TASKS_PER_NODE=1"
)
# Four tasks on three nodes whose names differ in shape.
SLURM_UNEVEN = SLURM_TASK | variables(
    "SLURM_JOB_ID=4711 SLURM_STEP_ID=1 SLURM_STEP_NODELIST=gpu-[08,10],big SLURM_STEP_NUM_TASKS=4 "
    "SLURM_STEP_TASKS_PER_NODE=2,1(x2) SLURM_PROCID=2 SLURM_NODEID=1"
)

POD = variables("KUBERNETES_SERVICE_HOST=10.96.0.1 KUBERNETES_SERVICE_PORT=443")
TF_JOB_CLUSTER = {
    "chief": ["train-chief-0.team.svc:2222"],
    "worker": ["train-worker-0.team.svc:2222", "train-worker-1.team.svc:2222"],
}
TF_JOB = POD | tf_config(TF_JOB_CLUSTER, "worker", 1, environment="cloud")
TORCH_TRAIN_JOB = POD | variables(
    "HOSTNAME=train-node-0-1 JOB_COMPLETION_INDEX=1 PET_NNODES=2 PET_NPROC_PER_NODE=auto "
    "PET_NODE_RANK=1 PET_MASTER_ADDR=train-node-0-0.train PET_MASTER_PORT=29500"
)
JAX_TRAIN_JOB = POD | variables(
    "JOB_COMPLETION_INDEX=0 JAX_NUM_PROCESSES=3 JAX_PROCESS_ID=0 "
    "JAX_COORDINATOR_ADDRESS=train-node-0-0.train:29500"
)
INDEXED_JOB = POD | variables(
    "HOSTNAME=train-2 JOB_COMPLETION_INDEX=2 GPUKIT_WORKERS=3 "
    "GPUKIT_ADDRESSES=train-{index}.train:2222"
)

OPEN_MPI = variables(
    "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 "
    "OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=prterun-host-4242@1"
)
MPICH = variables("PMI_RANK=0 PMI_SIZE=2 MPI_LOCALNRANKS=1 MPI_LOCALRANKID=0")
TORCHRUN = variables(
    "RANK=1 LOCAL_RANK=1 WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 GROUP_RANK=0 MASTER_ADDR=node1 "
    "MASTER_PORT=29500 TORCHELASTIC_RUN_ID=none"
)
FOUR = "node1:7000,node1:7001,node2:7000,node2:7001"
PS = {"chief": ["x:1"], "worker": ["a:1", "b:1"], "ps": ["p:1"]}


def slurm(job: int, step: int, *hosts: str) -> str:
    """Each task's address: 312 blocks of 64 ports from 10000 on, a task's port by its rank."""
    first = 10_000 + (job + 101 * step) % 312 * 64
    return ",".join(f"{host}:{first + rank}" for rank, host in enumerate(hosts))


PORT, ADDRESSES = "GPUKIT_PORT", "GPUKIT_ADDRESSES"
LOCALHOST, ON_NODES = "localhost:7000,localhost:7001", "node1:7001,node2:7000"
TORCH, JAX = ([f"train-node-0-{pod}.train:29500" for pod in range(pods)] for pods in (2, 3))
CYCLIC = {"SLURM_DISTRIBUTION": "cyclic:block", "SLURM_NODEID": "2"}
AT_OTHERS = {"GPUKIT_NODE_ADDRESSES": "n1=127.0.0.1,n2=127.0.0.1", PORT: "7000"}
TF_JOBS = {role: ",".join(hosts) for role, hosts in TF_JOB_CLUSTER.items()}
READ = {
    "TF_CONFIG worker 2, 2 of 3": [(tf_config(WORKERS, "worker", 2), "a:1,b:1,c:1")],
    "TF_CONFIG worker 1, 1 of 3": [(tf_config(WORKERS, "worker", "1"), "a:1,b:1,c:1")],
    "TF_CONFIG ps 0, None of 2": [
        (tf_config(PS, "ps", 0), {"chief": "x:1", "worker": "a:1,b:1", "ps": "p:1"})
    ],
    # An evaluator has no server.
    "TF_CONFIG evaluator 0, None of 3": [(tf_config(WORKERS, "evaluator", 0), "a:1,b:1,c:1")],
    "Slurm worker 1, 1 of 2": [
        (SLURM_TASK, slurm(2, 0, "n1", "n2")),
        (SLURM_TASK | AT_OTHERS, "127.0.0.1:7000,127.0.0.1:7001"),
        # srun sets MPICH's variables too.
        (SLURM_TASK | {"PMI_RANK": "1", "PMI_SIZE": "2"}, slurm(2, 0, "n1", "n2")),
    ],
    "Slurm worker 2, 2 of 4": [
        (SLURM_UNEVEN, slurm(4711, 1, "gpu-08", "gpu-08", "gpu-10", "big")),
        (SLURM_UNEVEN | CYCLIC, slurm(4711, 1, "gpu-08", "gpu-10", "big", "gpu-08")),
    ],
    "Slurm worker 1, None of 2": [
        (
            {**SLURM_UNEVEN, "GPUKIT_PARAMETER_SERVERS": "1", ADDRESSES: FOUR},
            {"chief": "node1:7000", "worker": ON_NODES, "ps": "node2:7001"},
        )
    ],
    "Kubernetes worker 1, 2 of 3": [(TF_JOB, TF_JOBS)],
    "Kubernetes worker 1, 1 of 2": [(TORCH_TRAIN_JOB, ",".join(TORCH))],
    "Kubernetes worker 0, 0 of 3": [(JAX_TRAIN_JOB, ",".join(JAX))],
    "Kubernetes worker 2, 2 of 3": [
        (INDEXED_JOB, "train-0.train:2222,train-1.train:2222,train-2.train:2222")
    ],
    "MPI worker 0, 0 of 2": [(MPICH | {ADDRESSES: "n1:7000, n2:7000"}, "n1:7000,n2:7000")],
    "MPI worker 1, 1 of 2": [
        (OPEN_MPI | {PORT: "7000"}, LOCALHOST),
        (SLURM_BATCH | OPEN_MPI | {PORT: "7000"}, LOCALHOST),  # mpirun in a batch script
    ],
    "MPI worker 1, 1 of 4": [
        (TORCHRUN | {ADDRESSES: FOUR}, FOUR),
        # mpirun within a job step of Slurm.
        (SLURM_TASK | OPEN_MPI | {"OMPI_COMM_WORLD_SIZE": "4", ADDRESSES: FOUR}, FOUR),
    ],
}


@pytest.mark.parametrize(
    ("place", "environment", "addresses"),
    [(place, *case) for place, cases in READ.items() for case in cases],
)
def test_a_cluster_is_read_from_its_variables(place, environment, addresses):
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


ALONE = [
    *({}, {"TF_CONFIG": ""}, {"TF_CONFIG": "{}"}, tf_config({"worker": ["a:1"]})),
    SLURM_ONE_TASK,
    {**SLURM_BATCH, "SLURM_NTASKS": "1", "SLURM_JOB_NUM_NODES": "1"},
    POD,  # of no Job
    {**TORCH_TRAIN_JOB, "PET_NNODES": "1", "PET_NODE_RANK": "0"},
    {**INDEXED_JOB, "GPUKIT_WORKERS": "1"},  # each pod trains alone
    {**OPEN_MPI, "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"},
]


@pytest.mark.parametrize("environment", ALONE)
def test_a_process_of_its_own_is_no_cluster(environment):
    assert read_cluster(environment) is None


def config(*arguments) -> str:
    return tf_config(*arguments)["TF_CONFIG"]


# Variables with one that is wrong or missing, which the error must name, and what it must say.
REFUSED = [
    ({}, "TF_CONFIG", "{", "must be JSON"),
    ({}, "TF_CONFIG", "[]", 'object with a "cluster"'),
    ({}, "TF_CONFIG", json.dumps({"cluster": WORKERS}), '"task"'),
    ({}, "TF_CONFIG", config(WORKERS, "worker", 3), "index below 3"),
    ({}, "TF_CONFIG", config(WORKERS, "worker", None), "whole number"),
    ({}, "TF_CONFIG", config(WORKERS, "chief", 0), "types (worker)"),
    ({}, "TF_CONFIG", config({"master": ["m:1"], **WORKERS}), '"master" is none'),
    ({}, "TF_CONFIG", config({"worker": ["a", "b:1"]}), "host:port"),
    ({}, "TF_CONFIG", config({"worker": ["a:1", "a:1"]}), "worker 0 has it"),
    ({}, "TF_CONFIG", config({"chief": ["x:1", "y:1"]}, "chief"), "one chief"),
    ({}, "TF_CONFIG", config({"worker": []}), "an address"),
    (POD, "TF_CONFIG", "{", "must be JSON"),
    (SLURM_BATCH, "SLURM_NTASKS", "2", "srun python"),
    (without(SLURM_BATCH, "SLURM_NTASKS", "SLURM_NPROCS"), "SLURM_JOB_NUM_NODES", "2", "--nodes=1"),
    (SLURM_TASK, "SLURM_STEP_NUM_TASKS", None, "srun"),
    (SLURM_TASK, "SLURM_STEP_ID", None, "pass all SLURM_ variables"),
    (SLURM_TASK, "SLURM_STEP_NODELIST", None, "srun"),
    (SLURM_TASK, "SLURM_PROCID", "2", "below `SLURM_STEP_NUM_TASKS`"),
    (SLURM_TASK, "SLURM_PROCID", "one", "whole"),
    (SLURM_TASK, "SLURM_STEP_NODELIST", "n[1-2", "list of nodes"),
    (SLURM_TASK, "SLURM_STEP_TASKS_PER_NODE", "2(x2)", "2 tasks in all"),
    (SLURM_UNEVEN, "SLURM_NODEID", "2", "--distribution=block"),
    (SLURM_TASK, "SLURM_HET_SIZE", "2", "TF_CONFIG"),
    (SLURM_TASK, "GPUKIT_PARAMETER_SERVERS", "1", "a chief and a worker"),
    (SLURM_TASK, "GPUKIT_PORT", "70000", "65535"),
    (SLURM_TASK, "GPUKIT_NODE_ADDRESSES", "n1", "node=address"),
    (TORCH_TRAIN_JOB, "PET_NNODES", None, "PET_NODE_RANK"),
    (TORCH_TRAIN_JOB, "PET_NNODES", "1:4", "whole number"),
    (TORCH_TRAIN_JOB, "PET_MASTER_ADDR", None, "TrainJob sets it"),
    (TORCH_TRAIN_JOB, "PET_MASTER_ADDR", "train-node-0-1.train", "GPUKIT_ADDRESSES"),
    (JAX_TRAIN_JOB, "JAX_COORDINATOR_ADDRESS", "coordinator.train:29500", "GPUKIT_ADDRESSES"),
    (INDEXED_JOB, "GPUKIT_WORKERS", None, "completions"),
    (INDEXED_JOB, "GPUKIT_ADDRESSES", None, "host:port"),
    (INDEXED_JOB, "GPUKIT_ADDRESSES", "train-{index}.train", "host:port"),
    (INDEXED_JOB, "JOB_COMPLETION_INDEX", None, "completionMode: Indexed"),
    (INDEXED_JOB, "JOB_COMPLETION_INDEX", "3", "below `GPUKIT_WORKERS`"),
    (OPEN_MPI, "OMPI_COMM_WORLD_SIZE", None, "set both or neither"),
    (OPEN_MPI | {"OMPI_COMM_WORLD_SIZE": "4"}, "GPUKIT_ADDRESSES", None, "node1:12345"),
    (MPICH, "GPUKIT_ADDRESSES", None, "one host:port for each"),
    (TORCHRUN, "GPUKIT_ADDRESSES", None, "machine, node1"),
    (TORCHRUN, "RANK", None, "set both or neither"),
    (TORCHRUN, "RANK", "4", "below `WORLD_SIZE`"),
    (TORCHRUN, "GPUKIT_ADDRESSES", "node1:7000,node2:7000", "each of 4 processes"),
]


@pytest.mark.parametrize(("others", "name", "value", "advice"), REFUSED)
def test_a_wrong_or_half_set_environment_is_an_error_that_names_the_variable(
    others, name, value, advice
):
    with pytest.raises(ClusterError) as caught:
        read_cluster(without(others, name) if value is None else {**others, name: value})
    message = str(caught.value)
    assert f"{name}=" in message.rpartition("Received: ")[2]
    assert advice in message


def test_reading_changes_no_variable_and_a_cluster_says_in_a_line_what_it_is(monkeypatch):
    for name, value in {**SLURM_TASK, "CUDA_VISIBLE_DEVICES": "0,1"}.items():
        monkeypatch.setenv(name, value)
    before = dict(os.environ)
    assert read_cluster(os.environ).kind == "Slurm"
    assert dict(os.environ) == before
    said = "Kubernetes Indexed Job: worker 2 at train-2.train:2222, of 3 worker"
    assert str(read_cluster(INDEXED_JOB)) == said


def test_two_jobs_on_one_machine_get_different_ports():
    def ports(environment):
        (addresses,) = read_cluster(environment).addresses.values()
        return {int(address.rpartition(":")[2]) for address in addresses}

    taken = [ports({**SLURM_TASK, "SLURM_JOB_ID": str(job)}) for job in range(1000, 1312)]
    assert len(set().union(*taken)) == 2 * len(taken)
    steps = [ports({**SLURM_TASK, "SLURM_STEP_ID": str(step)}) for step in range(2)]
    assert not set.intersection(*steps)
    assert max(map(max, taken)) < 30_000


def test_a_node_list_is_written_out():
    for nodes, names in (
        ("n1", "n1"),
        ("n[1-3]", "n1 n2 n3"),
        ("gpu-[08-10,12]", "gpu-08 gpu-09 gpu-10 gpu-12"),
        ("a,b[1,3],c.example.org", "a b1 b3 c.example.org"),
        ("r[1-2]n[01-02]", "r1n01 r1n02 r2n01 r2n02"),
        ("r[1-2]-ib", "r1-ib r2-ib"),
    ):
        assert expand_nodes(nodes) == tuple(names.split())
    for wrong in ("", ",", "n[1-2", "n1-2]", "n[2-1]", "n[a]", "n1,,n2", "n1,"):
        with pytest.raises(ValueError):
            expand_nodes(wrong)


def test_tasks_per_node_are_written_out_and_placed_in_blocks_cyclically_or_in_planes():
    assert expand_tasks("2(x3),1") == (2, 2, 2, 1)
    for wrong in ("", "2(x3", "two", "2,"):
        with pytest.raises(ValueError):
            expand_tasks(wrong)
    places = {100: (0, 0, 0, 1, 2, 2), 1: (0, 1, 2, 0, 2, 0), 2: (0, 0, 1, 2, 2, 0)}
    for plane, nodes in places.items():
        assert node_of_each_task((3, 1, 2), plane) == nodes
