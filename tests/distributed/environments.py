"""Recorded environments of processes that train together, right and wrong.

Those of Slurm were printed by tasks of Slurm 22.05; those of Open MPI, MPICH and torchrun, and of
Kubeflow's operators, follow their documentation and source.
"""

from __future__ import annotations

import json


def without(environment: dict[str, str], *names: str) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name not in names}


def tf_config(cluster, task_type="worker", index=0) -> dict[str, str]:
    return {
        "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": task_type, "index": index}})
    }


WORKERS = {"worker": ["a:1", "b:1", "c:1"]}

# A batch script of two nodes, as it is before its first `srun`.
SLURM_BATCH = {
    "SLURM_JOB_ID": "2",
    "SLURM_JOB_NAME": "train.sbatch",
    "SLURM_JOB_NODELIST": "n[1-2]",
    "SLURM_JOB_NUM_NODES": "2",
    "SLURM_LOCALID": "0",
    "SLURM_NNODES": "2",
    "SLURM_NODEID": "0",
    "SLURM_NODE_ALIASES": "(null)",
    "SLURM_NPROCS": "2",
    "SLURM_NTASKS": "2",
    "SLURM_PROCID": "0",
    "SLURM_TASKS_PER_NODE": "1(x2)",
    "SLURMD_NODENAME": "n1",
}
# The second of its tasks.
SLURM_TASK = {
    **SLURM_BATCH,
    "SLURM_NODEID": "1",
    "SLURM_PROCID": "1",
    "SLURM_SRUN_COMM_HOST": "127.0.0.1",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NODELIST": "n[1-2]",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
    "SLURMD_NODENAME": "n2",
}
# `srun -N1 -n1` within it.
SLURM_ONE_TASK = {
    **SLURM_BATCH,
    "SLURM_DISTRIBUTION": "cyclic",
    "SLURM_NTASKS": "1",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NODELIST": "n1",
    "SLURM_STEP_NUM_TASKS": "1",
    "SLURM_STEP_TASKS_PER_NODE": "1",
}
# Four tasks on three nodes whose names differ in shape.
SLURM_UNEVEN = {
    **SLURM_TASK,
    "SLURM_JOB_ID": "4711",
    "SLURM_STEP_ID": "1",
    "SLURM_STEP_NODELIST": "gpu-[08,10],big",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_STEP_TASKS_PER_NODE": "2,1(x2)",
    "SLURM_PROCID": "2",
    "SLURM_NODEID": "1",
}

POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}
TF_JOB = {
    **POD,
    "TF_CONFIG": json.dumps(
        {
            "cluster": {
                "chief": ["train-chief-0.team.svc:2222"],
                "worker": ["train-worker-0.team.svc:2222", "train-worker-1.team.svc:2222"],
            },
            "task": {"type": "worker", "index": 1},
            "environment": "cloud",
        }
    ),
}
TORCH_TRAIN_JOB = {
    **POD,
    "HOSTNAME": "train-node-0-1",
    "JOB_COMPLETION_INDEX": "1",
    "PET_NNODES": "2",
    "PET_NPROC_PER_NODE": "auto",
    "PET_NODE_RANK": "1",
    "PET_MASTER_ADDR": "train-node-0-0.train",
    "PET_MASTER_PORT": "29500",
}
JAX_TRAIN_JOB = {
    **POD,
    "JOB_COMPLETION_INDEX": "0",
    "JAX_NUM_PROCESSES": "3",
    "JAX_PROCESS_ID": "0",
    "JAX_COORDINATOR_ADDRESS": "train-node-0-0.train:29500",
}
INDEXED_JOB = {
    **POD,
    "HOSTNAME": "train-2",
    "JOB_COMPLETION_INDEX": "2",
    "GPUKIT_WORKERS": "3",
    "GPUKIT_ADDRESSES": "train-{index}.train:2222",
}

OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "PMIX_NAMESPACE": "prterun-host-4242@1",
}
MPICH = {"PMI_RANK": "0", "PMI_SIZE": "2", "MPI_LOCALNRANKS": "1", "MPI_LOCALRANKID": "0"}
TORCHRUN = {
    "RANK": "1",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "4",
    "LOCAL_WORLD_SIZE": "2",
    "GROUP_RANK": "0",
    "MASTER_ADDR": "node1",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "none",
}
FOUR = "node1:7000,node1:7001,node2:7000,node2:7001"
