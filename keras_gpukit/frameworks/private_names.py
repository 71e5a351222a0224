"""Which measurements need private names of TensorFlow and Keras, and which names are missing here.

Without one of its names, a measurement is unknown or less precise; the modules that use a name say
which. Names are looked for in the source files of the installed packages: nothing of them is run.
A name is "module:Class.attribute" or "module:name"; "A|B" are a class' names of several versions.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from keras_gpukit.records.installation import MissingNames

_DATASETS = "tensorflow.python.data.ops.dataset_ops:DatasetV2"
_ITERATOR = "tensorflow.python.data.ops.iterator_ops:OwnedIterator"
_WRAPPER = "tensorflow.python.data.ops.structured_function:StructuredFunctionWrapper"
_CONTEXT = "tensorflow.python.eager.context:Context"
_TRACING = "tensorflow.python.eager.polymorphic_function"
_TRACES = f"{_TRACING}.polymorphic_function:Function._list_all_concrete_functions"
_OP_DEFS = "tensorflow.python.framework.op_def_registry:get"
_DISTRIBUTED = "tensorflow.python.distribute.input_lib"
_TRAINER = "keras.src.backend.tensorflow.trainer"
_ADAPTERS = "keras.src.trainers.data_adapters"
_KERAS_STATE = "keras.src.backend.common.global_state"

NEEDED_FOR: dict[str, tuple[str, ...]] = {
    "input wait": (
        f"{_ITERATOR}._iterator_resource",
        f"{_ITERATOR}._dataset",
        f"{_TRAINER}:TFEpochIterator._distributed_dataset",
        "keras.src.trainers.epoch_iterator:EpochIterator.data_adapter",
        "keras.src.trainers.epoch_iterator:EpochIterator.num_batches",
    ),
    "input wait of short epochs": (
        f"{_DATASETS}._variant_tensor",
        f"{_DATASETS}._flat_structure",
        "tensorflow.python.data.ops.dataset_ops:UnaryUnchangedStructureDataset",
        "tensorflow.python.data.ops.dataset_ops:_OptionsDataset._options_attr",
        "tensorflow.python.data.util.options:OptionsBase._set_mutable",
    ),
    "input wait with several devices": (
        f"{_DISTRIBUTED}:DistributedIterator._iterators",
        f"{_DISTRIBUTED}:DistributedDataset._input_workers",
        f"{_DISTRIBUTED}:DistributedDataset._cloned_datasets",
        f"{_TRAINER}:TFEpochIterator._distribute_strategy",
        "tensorflow.python.data.ops.multi_device_iterator_ops:"
        "OwnedMultiDeviceIterator._device_iterators",
        "tensorflow.python.data.experimental.ops.prefetching_ops:_CopyToDeviceDataset._target_device",
        "tensorflow.python.eager.context:anonymous_name",
    ),
    "input stall per stage": (
        f"{_DATASETS}._inputs",
        f"{_DATASETS}._functions",
        f"{_DATASETS}._metadata",
        f"{_WRAPPER}.function",
        f"{_WRAPPER}._func",
    ),
    "Python code that makes batches": (
        f"{_DATASETS}._GeneratorState._generator",
        "tensorflow.python.ops.script_ops:_py_funcs",
        "tensorflow.python.autograph.impl.api:_TRANSPILER",
        f"{_ADAPTERS}.py_dataset_adapter:PyDatasetAdapter.py_dataset",
        f"{_ADAPTERS}.generator_data_adapter:GeneratorDataAdapter.generator",
    ),
    "changes of an input pipeline": (
        f"{_DATASETS}._common_args",
        "tensorflow.python.data.ops.dataset_ops:UnaryDataset._input_dataset",
        "tensorflow.python.data.util.nest:flatten",
        "tensorflow.python.data.ops.map_op:_ParallelMapDataset",
        "tensorflow.python.data.ops.batch_op:_ParallelBatchDataset",
        "tensorflow.python.data.ops.interleave_op:_ParallelInterleaveDataset",
        _OP_DEFS,
    ),
    "Python functions of a step": ("tensorflow.python.ops.script_ops:_py_funcs",),
    "placement": (
        f"{_CONTEXT}.enable_graph_collection",
        f"{_CONTEXT}.disable_graph_collection",
        f"{_CONTEXT}.export_run_metadata",
        f"{_CONTEXT}.has_function",
        f"{_CONTEXT}.scope_name",
        f"{_CONTEXT}.device_name",
        "tensorflow.python.ops.summary_ops_v2:_current_trace_context",
        "tensorflow.python.framework.op_callbacks:add_op_callback",
        "tensorflow.python.framework.kernels:get_registered_kernels_for_op",
        _OP_DEFS,
    ),
    "operations per step": (
        f"{_TRAINER}:one_step_on_data",
        _TRACES,
        "tensorflow.python.framework.ops:Graph._get_function",
    ),
    "memory prediction": (
        _OP_DEFS,
        _TRACES,
        "tensorflow.python.grappler.tf_optimizer:OptimizeGraph",
    ),
    "examples per second": ("keras.src.trainers.trainer:Trainer|BaseTrainer._loss_tracker",),
    "steps under gradient accumulation": (
        "keras.src.optimizers.base_optimizer:BaseOptimizer._iterations",
    ),
    "functions that are traced again": (
        f"{_TRACING}.polymorphic_function:_frequent_tracing_detector_manager",
        f"{_TRACING}.polymorphic_function:Function._function_cache",
        f"{_TRACING}.tracing_compilation:_graph_building_time_counter",
    ),
    "compilations by XLA": ("tensorflow.python.eager.monitoring:Counter",),
    "settings that slow a run": (
        "tensorflow.python.data.ops.debug_mode:DEBUG_MODE",
        "tensorflow.python.debug.lib.dumping_callback:_state",
        "tensorflow.python.debug.lib.check_numerics_callback:_state",
        "tensorflow.python.profiler.profiler_v2:_profiler",
        "tensorflow.python.framework.config:is_op_determinism_enabled",
        "keras.src.callbacks.tensorboard:TensorBoard._start_batch",
    ),
    "step marks in profiles of other tools": ("tensorflow.python.profiler.trace:enabled",),
    "state of TensorFlow's devices": (f"{_CONTEXT}._initialized", f"{_CONTEXT}.config"),
    "restoring a model after a trial": (
        f"{_KERAS_STATE}:GLOBAL_STATE_TRACKER",
        f"{_CONTEXT}._rng",
        "tensorflow.python.ops.stateful_random_ops:global_generator",
        "tensorflow.python.trackable.data_structures:ListWrapper",
    ),
    "rematerialize() of segments": (
        f"{_KERAS_STATE}:get_global_attribute",
        "keras.src.models.sequential:Sequential._functional",
        "keras.src.ops.function:Function._nodes_by_depth",
        "keras.src.ops.function:Function._run_through_graph",
    ),
    "time in collectives": (
        "tensorflow.python.distribute.cross_device_utils:CollectiveReplicaLauncher.all_reduce",
        "tensorflow.python.distribute.cross_device_utils:CollectiveReplicaLauncher._all_gather",
    ),
    "round trips between workers": (f"{_CONTEXT}.check_collective_ops_peer_health",),
    "repairs of Keras on several workers": (
        f"{_TRAINER}:TensorFlowTrainer|Trainer._maybe_symbolic_build",
        f"{_TRAINER}:TensorFlowTrainer|Trainer._make_function",
        f"{_TRAINER}:reduce_per_replica",
        "keras.src.trainers.trainer:Trainer|BaseTrainer._initial_epoch",
    ),
    "loops without fit in unchanged scripts": (f"{_ITERATOR}.__next__",),
    "short tracebacks of unchanged scripts": ("keras.src.utils.traceback_utils:_EXCLUDED_PATHS",),
}
"""Private names by the measurement that needs them, seen on TensorFlow 2.21 and Keras 3.15."""


def missing_names() -> tuple[MissingNames, ...]:
    """Returns the measurements whose private names this TensorFlow or Keras does not have."""
    missing = {
        measurement: tuple(name for name in names if not _is_there(name))
        for measurement, names in NEEDED_FOR.items()
    }
    return tuple(MissingNames(measure, names) for measure, names in missing.items() if names)


def _is_there(name: str) -> bool:
    module, _, path = name.partition(":")
    source = _source(module)
    return all(re.search(rf"\b(?:{part})\b", source) for part in path.split("."))


def _source(module: str) -> str:
    """Returns the source of a package's module, without importing it; "" if it has no such file."""
    package, *rest = module.split(".")
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        return ""
    file = Path(found.origin).parent.joinpath(*rest).with_suffix(".py")
    return file.read_text(encoding="utf-8") if file.is_file() else ""
