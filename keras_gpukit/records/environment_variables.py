"""Environment variables that this package reads or sets, with their meaning.

The documentation's page about them is made from these tables. Those that describe a cluster are
read by `keras_gpukit.distributed.clusters`.
"""

from __future__ import annotations

from collections.abc import Mapping

YOURS = {
    "GPUKIT_ADDRESSES": (
        "One host:port for each process, in order of rank, separated by commas; or a single one in "
        "which `{index}` stands for the rank: `train-{index}.train:2222`"
    ),
    "GPUKIT_WORKERS": "Number of pods of an Indexed Job; 1 if each trains alone",
    "GPUKIT_PARAMETER_SERVERS": (
        "How many of the last processes are parameter servers; the first one is then the chief"
    ),
    "GPUKIT_NODE_ADDRESSES": (
        "Where Slurm's nodes are reached, if not by their names: `n1=10.0.0.1,n2=10.0.0.2`"
    ),
    "GPUKIT_PORT": (
        "Port of the first process; the next ones follow. By default ports between 10000 and 30000 "
        "that depend on the job's number"
    ),
}
OF_GPUS = {
    "CUDA_VISIBLE_DEVICES": "Which GPUs programs see, and in what order; `-1` hides all",
    "CUDA_DEVICE_ORDER": "`PCI_BUS_ID` numbers GPUs as `nvidia-smi` does",
    "KERAS_BACKEND": "Keras' backend; this package needs `tensorflow`",
    "NVIDIA_TF32_OVERRIDE": "`0` turns TensorFloat-32 off, whatever the program asks",
    "TF_DETERMINISTIC_OPS": "`1` has TensorFlow compute the same bits in each run",
    "TF_FORCE_GPU_ALLOW_GROWTH": "`true` has GPU memory grow, `false` takes all of it",
    "TF_GPU_ALLOCATOR": "`cuda_malloc_async` replaces TensorFlow's own allocator",
    "TF_GPU_THREAD_COUNT": "Number of threads that launch kernels",
    "TF_GPU_THREAD_MODE": "Whether each GPU has such threads of its own",
    "TF_XLA_FLAGS": "TensorFlow's options of XLA, such as a folder for compiled steps",
    "XLA_FLAGS": "XLA's own options",
}
OTHERS = {
    "CUDA_INJECTION64_PATH": "If set, another profiler is at work, and `Monitor` captures nothing",
    "LD_LIBRARY_PATH": "Where the loader looks for CUDA's libraries first",
    "MLFLOW_RUN_ID": 'The MLflow run that `Monitor(log_to="mlflow")` logs to, if none is active',
    "NO_COLOR": "If set, `launch` colours no names of workers",
    "TF_CONFIG": "The cluster that this process belongs to",
    "TF_CPP_MIN_LOG_LEVEL": "`0` shows TensorFlow's log where a command would hide it",
    "TF_CPU_ALLOCATOR_USE_BFC": "`true` has a CPU's memory managed as a GPU's",
    "TF_CPU_BFC_MEM_LIMIT_IN_MB": "The limit of that memory",
    "XDG_CACHE_HOME": "Folder of caches, where `bench` keeps what a GPU reaches",
}
SET_HERE = {
    "GPUKIT_FOLLOW": "How the processes that a script under `run --follow` starts are monitored",
    "GPUKIT_RUN_FOLDER": "Folder of a run that all processes of a job share",
    "GPUKIT_SET_TF_CONFIG": "Marks a `TF_CONFIG` that only repeats what other variables say",
    "GRPC_FAIL_FAST": "Has calls to a parameter server that has died fail at once",
    "NCCL_DEBUG": "Has NCCL say why it fails; only in the jobs that `launch` writes",
    "TF_GRPC_REUSE_PORT": "Lets TensorFlow take a port that `launch` has reserved",
}
GROUPS: Mapping[str, Mapping[str, str]] = {
    "For you to set": YOURS,
    "Listed by `doctor` if they are set, since they affect GPUs": OF_GPUS,
    "Also read": OTHERS,
    "Set by this package, for processes that it starts": SET_HERE,
}
"""All of them, by what they are for."""
