"""Which stage of a pipeline is named, and what its figures are."""

import contextlib
import inspect
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.training import FEATURES, input_of, sleep_in_tensorflow, small_model
from tensorflow.core.framework import model_pb2

from keras_gpukit.frameworks.tf_datasets import read_model
from keras_gpukit.input.pipelines import stage as stage_module
from keras_gpukit.input.pipelines.functions import work_of
from keras_gpukit.input.pipelines.stage import read_stages
from keras_gpukit.input.wait import bottleneck
from keras_gpukit.input.wait.bottleneck import complete, cut, slowest, within_pool
from keras_gpukit.input.wait.measured_nodes import measure
from keras_gpukit.input.wait.readings import MeasuredNode, ModelReading, Node, read_nodes
from keras_gpukit.input.wait.watch import PipelineWatch
from keras_gpukit.records import CallLine
from keras_gpukit.rules.input.pipeline_causes import name_bottleneck
from keras_gpukit.sensors import interpreter

HERE = "tests/input/wait/test_stages.py"

# What tf.data's model says, several times, of pipelines made by hand.


def reading(*nodes: Node) -> ModelReading:
    return ModelReading({node.id: node for node in nodes}, nodes[0].id)


def follow(watch: PipelineWatch, dataset: tf.data.Dataset, batches: int) -> Any:
    """Reads the model at each of some batches; returns the iterator."""
    iterator = iter(dataset)
    watch.follow(iterator)
    for _ in range(batches):
        next(iterator)
        watch.add_reading(read_model(iterator))
    return iterator


def by_kind(output: MeasuredNode) -> dict[str, MeasuredNode]:
    return {stage.kind: stage for stage in output.walk()}


def test_filling_the_buffers_at_the_start_does_not_count():
    first = reading(Node(1, "Root", 10, 0.0, inputs=(2,)), Node(2, "Shuffle", 1000, 50.0))
    last = reading(Node(1, "Root", 20, 0.0, inputs=(2,)), Node(2, "Shuffle", 1040, 50.2))
    output, batches = measure([[first, last]])
    shuffle = by_kind(output)["Shuffle"]
    assert batches == 10
    assert shuffle.cost_s == pytest.approx(0.2 / 40)
    assert shuffle.cost_per_batch_s == pytest.approx(0.2 / 10)


def test_epochs_add_up():
    def epoch(number: int) -> list[ModelReading]:
        ids = 10 * number + 1, 10 * number + 2
        return [
            reading(
                Node(ids[0], "Root", count, 0.0, inputs=ids[1:]),
                Node(ids[1], "Map", count, 0.1 * count),
            )
            for count in (1, 4)
        ]

    output, batches = measure([epoch(0), epoch(1)])
    assert batches == 6
    assert by_kind(output)["Map"].cost_per_batch_s == pytest.approx(0.1)
    assert measure([epoch(0)[:1]]) is None  # one reading is not enough


def test_nested_pipelines_that_come_and_go_are_sampled():
    def moment(batches: int, nested: int, work_s: float, elements: int) -> ModelReading:
        return reading(
            Node(1, "Root", batches, 0.0, inputs=(2,)),
            Node(2, "Batch", batches, 0.0, inputs=(3,)),
            Node(3, "FlatMap", batches * 8, 0.0, inputs=(4, nested)),
            Node(4, "Range", batches, 0.0),
            Node(nested, "Map", elements, work_s),
        )

    moments = [moment(1, 7, 0.02, 2), moment(5, 70, 0.05, 5), moment(9, 99, 0.03, 3)]
    stages = by_kind(measure([moments])[0])
    assert stages["Map"].cost_s == pytest.approx(0.01)
    assert stages["Map"].cost_per_batch_s == pytest.approx(8 * 0.01)
    assert [each.kind for each in stages["FlatMap"].nested] == ["Map"]
    assert [each.kind for each in stages["FlatMap"].inputs] == ["Range"]


def test_a_shuffle_that_is_filled_anew_with_each_repetition_hands_on_what_it_took():
    def moment(batches: int, pass_: int, taken: int) -> ModelReading:
        ids = [10 * pass_ + number for number in (1, 2, 3)]
        passed = batches * 8
        return reading(
            Node(1, "Root", batches, 0.0, inputs=(2,)),
            Node(2, "Repeat", batches, 0.0, inputs=(ids[0],)),
            Node(ids[0], "Batch", batches, 0.0, inputs=(ids[1],)),
            Node(ids[1], "Shuffle", passed, 0.0, inputs=(ids[2],)),
            Node(ids[2], "Map", taken, 0.01 * taken),
        )

    # Each pass took 100 elements more than it gave, to fill its buffer.
    moments = [moment(1, 1, 108), moment(5, 1, 140), moment(10, 2, 140)]
    slow = by_kind(measure([moments])[0])["Map"]
    assert slow.cost_s == pytest.approx(0.01)
    assert slow.cost_per_batch_s == pytest.approx(8 * 0.01)


def test_a_reading_is_in_seconds_and_has_the_threads_that_are_in_effect():
    model = model_pb2.ModelProto(output=1)
    node = model.nodes[1]
    node.id, node.name, node.num_elements = 1, "ParallelMapV2", 5
    node.node_class = model_pb2.NodeClass.ASYNC_KNOWN_RATIO
    node.processing_time = 3_000_000  # ns
    node.parameters.add(name="parallelism", value=9, state_value=4)
    found = read_nodes(model).nodes[1]
    assert (found.kind, found.elements, found.work_s) == ("ParallelMap", 5, pytest.approx(0.003))
    assert found.parallelism == 4  # autotuning tries 9


def stage(kind, cost_s, *inputs, nested=(), per_batch=1.0, **options) -> MeasuredNode:
    options |= {"inputs": inputs, "nested": nested}
    return MeasuredNode(kind, cost_s, per_batch, (cost_s or 0.0) * per_batch, **options)


def named_slowest(output: MeasuredNode) -> str:
    return max(slowest(cut(output)).members, key=lambda member: member.time_s).stage.kind


def test_a_buffer_cuts_a_pipeline_and_threads_share_the_work():
    filtered = stage("Filter", 4.0, stage("Range", 1.0))
    together = stage("Batch", 2.0, stage("Map", 3.0, filtered))
    assert slowest(cut(together)).time_s == 10.0
    apart = stage("Batch", 2.0, stage("Map", 3.0, stage("Prefetch", 0.0, filtered, buffered=1.0)))
    assert sorted(segment.time_s for segment in cut(apart)) == [5.0, 5.0]
    source = stage("Range", 3.0)
    assert named_slowest(stage("ParallelMap", 4.0, source, buffered=0.0, parallelism=2)) == "Range"
    assert named_slowest(stage("ParallelMap", 4.0, source, buffered=0.0, parallelism=1)) != "Range"
    # A stage of several copies has the threads of each.
    nested = stage("ParallelMap", 8.0, buffered=0.0, parallelism=2, copies=4.0)
    output = stage("ParallelInterleave", 0.0, nested=(nested,), buffered=0.0, parallelism=4)
    assert slowest(cut(output)).time_s == 8.0 / (2 * 4)


def test_no_more_calls_run_in_parallel_than_the_pool_has_threads():
    asked = stage("Prefetch", 0.0, stage("ParallelMap", 4.0, buffered=0.0, parallelism=16))
    found = within_pool(asked, 2).inputs[0]
    assert (found.parallelism, found.asked_parallelism) == (2, 16)
    assert slowest(cut(within_pool(asked, 2))).time_s == 4.0 / 2
    assert within_pool(asked, 16) == asked


def test_the_pool_is_the_datasets_own_or_has_a_thread_per_core(monkeypatch):
    monkeypatch.setattr(bottleneck, "usable_cores", lambda: 3)
    numbers = tf.data.Dataset.range(4)
    assert bottleneck.pool_threads(numbers.map(add_one, num_parallel_calls=16)) == 3
    options = tf.data.Options()
    options.threading.private_threadpool_size = 7
    assert bottleneck.pool_threads(numbers.with_options(options).batch(2)) == 7
    waiting = numbers.map(add_one, num_parallel_calls=16, use_unbounded_threadpool=True)
    assert bottleneck.pool_threads(waiting.batch(2)) is None


def test_nested_stages_work_in_the_threads_of_their_interleave():
    def interleave(source_s: float, own_s: float) -> MeasuredNode:
        source, nested = stage("Generator", source_s), (stage("Map", 6.0),)
        threads = {"buffered": 0.0, "parallelism": 2}
        return stage("ParallelInterleave", own_s, source, nested=nested, **threads)

    assert named_slowest(interleave(2.0, 0.1)) == "Map"
    assert named_slowest(interleave(4.0, 0.1)) == "Generator"
    # Its threads wait for each other at the source, which tf.data takes for the interleave's work.
    assert named_slowest(interleave(4.0, 11.0)) == "Generator"


def test_a_wait_is_that_of_tiny_functions_or_a_nested_stage_or_stays_unexplained():
    mapped = stage("Map", 5e-6, stage("Range", 1e-6, per_batch=1000), per_batch=1000)
    completed = complete(stage("Batch", 1e-3, mapped), wait_s=0.05)
    assert named_slowest(completed) == "Map"
    assert slowest(cut(completed)).time_s == pytest.approx(0.05)
    # It was never seen to finish.
    nested = stage("Batch", None, stage("Map", None))
    output = stage("FlatMap", 1e-3, stage("Range", 1e-3), nested=(nested,))
    assert named_slowest(complete(output, wait_s=0.5)) == "Map"
    assert complete(stage("Sleep", 1e-3, stage("Range", 1e-3)), wait_s=0.5) is None


# Names, from the Python code of real pipelines.


def stages_of(stage):
    """The stages of a pipeline, those that its functions make last."""
    return [stage, *(each for inner in (*stage.inputs, *stage.nested) for each in stages_of(inner))]


def names_of(dataset: tf.data.Dataset) -> dict[str, tuple]:
    return {
        named.kind: (
            named.given_name,
            (function := named.function) and function.name,
            function and (function.location or "").partition(":")[0],
            function and function.work,
        )
        for named in stages_of(read_stages(dataset))
    }


def decode(record):
    return tf.io.decode_raw(record, tf.float32)


def in_python(x):
    return tf.numpy_function(lambda y: y, [x], tf.float32)


def records_of(path):
    return tf.data.TFRecordDataset(path).map(decode, name="decoding").batch(2)


def test_functions_give_their_names_and_places():
    dataset = tf.data.Dataset.range(4).map(lambda x: tf.cast(x, tf.float32), name="to_float")
    assert names_of(dataset)["Map"][0] == "to_float"
    given, name, file, work = names_of(tf.data.Dataset.range(4).map(lambda x: x + 1))["Map"]
    assert (given, file, work) == (None, HERE, "mapping")
    assert name.startswith(f"lambda at {HERE}:")
    python = tf.data.Dataset.from_tensors(1.0).map(in_python)
    assert names_of(python)["Map"] == (None, "in_python", HERE, "python")


def test_the_line_that_adds_a_stage_is_known_also_if_its_function_is_elsewhere():
    names: dict = {}
    exec(compile("def load(x): return x + 1", "/elsewhere.py", "exec"), names)
    load, line = names["load"], inspect.currentframe().f_lineno + 1
    stage = read_stages(tf.data.Dataset.range(4).map(load))
    assert stage.function.location == "elsewhere.py:1"
    call = "stage = read_stages(tf.data.Dataset.range(4).map(load)"
    assert stage.function.call == CallLine(f"{call})", len(call), f"{HERE}:{line}")


# AutoGraph leaves alone what it has no source of, too, such as what was typed in.
@pytest.mark.parametrize("converted", [True, False])
def test_stages_in_nested_datasets_are_named(converted):
    def nested(function):
        return function if converted else tf.autograph.experimental.do_not_convert(function)

    names = names_of(tf.data.Dataset.from_tensor_slices(["a"]).interleave(nested(records_of)))
    assert names["Interleave"][1:] == ("records_of", HERE, "mapping")
    assert names["Map"] == ("decoding", "decode", HERE, "decoding")
    assert {"TFRecord", "Batch"} <= set(names)
    names = names_of(tf.data.Dataset.range(2).interleave(nested(generated)))
    assert names["Generator"] == (None, "rows", HERE, "python")


def test_a_reader_is_known_with_its_files_and_its_helper(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("x,y\n1,2\n")

    def read(*names, **options):
        files = [str(tmp_path / name) for name in names]
        dataset = tf.data.experimental.make_csv_dataset(files, 2, num_epochs=1, **options)
        stage = read_stages(dataset)
        while stage.kind != "Interleave":
            (stage,) = stage.inputs
        (reader,) = stage.nested
        assert {stage.function.name, reader.function.name} == {"make_csv_dataset"}
        assert stage.function.work == reader.function.work == "reading"
        return reader.files

    assert read("a.csv", shuffle=False) == 1
    assert read("a.csv", "b.csv") == 2
    (lines,) = read_stages(tf.data.TextLineDataset([str(tmp_path / "a.csv")])).nested
    assert lines.files == 1
    files = tf.data.Dataset.from_tensor_slices(["a.csv", "b.csv", "c.csv"])
    for opened in (tf.data.TextLineDataset, lambda name: tf.data.TextLineDataset(name).skip(1)):
        assert read_stages(files.interleave(opened)).files == 3


def test_stages_that_repeat_themselves_in_each_epoch_are_known():
    numbers = tf.data.Dataset.range(8)
    assert read_stages(numbers.map(add_one).batch(2).prefetch(1)).repeats
    assert read_stages(numbers.shuffle(4).map(add_one)).repeats  # in another order
    random = numbers.map(lambda x: tf.random.uniform(()))
    assert not read_stages(random.batch(2)).repeats
    assert not read_stages(numbers.repeat().map(add_one)).repeats
    assert not read_stages(numbers.map(in_python)).repeats


def test_stages_have_the_names_that_the_script_gives_them():
    written = tf.data.Dataset.range(8).map(add_one).cache().map(lambda x: -x).batch(2, name="two")
    assert [*read_stages(written).names] == ["two", "map", "cache", "add_one", "range"]


def rows():
    while True:
        yield np.ones((4, FEATURES), "float32"), np.ones((4, 1), "float32")


class Files(keras.utils.PyDataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return next(rows())


def generated(_):
    return tf.data.Dataset.from_generator(rows, output_signature=SIGNATURE)


def add_one(x):
    return x + 1


def adding_to(start):
    def added(x):
        return tf.data.Dataset.range(2).map(add_one).map(lambda y: x + y + start)

    return added


def sums_of(x):
    return tf.data.Dataset.range(2).flat_map(adding_to(3))


def test_functions_that_autograph_converted_have_the_users_places():
    """Those that a converted function defines are in a file that AutoGraph wrote."""
    stages = stages_of(read_stages(tf.data.Dataset.range(2).interleave(sums_of)))
    functions = [stage.function for stage in stages if stage.function is not None]
    first = adding_to.__code__.co_firstlineno
    lambda_at = f"{HERE}:{first + 2}"
    assert [(function.name, function.location) for function in functions] == [
        ("sums_of", f"{HERE}:{sums_of.__code__.co_firstlineno}"),
        ("added", lambda_at),
        (f"lambda at {lambda_at}", lambda_at),
        ("add_one", f"{HERE}:{add_one.__code__.co_firstlineno + 1}"),
    ]


SIGNATURE = (tf.TensorSpec((4, FEATURES)), tf.TensorSpec((4, 1)))


class Watching(keras.callbacks.Callback):
    """Reads the model at every step."""

    def __init__(self):
        super().__init__()
        self.watch = PipelineWatch()
        self.iterators = []

    def on_train_begin(self, logs=None):
        step = self.model.train_function

        def watched(iterator):
            outputs = step(iterator)
            if not any(iterator is each for each in self.iterators):
                self.iterators.append(iterator)
                self.watch.follow(iterator)
            self.watch.add_reading(read_model(iterator))
            return outputs

        self.model.train_function = watched


def watched_fit(data, wait_s=0.01, **options):
    watching = Watching()
    small_model().fit(data, verbose=0, callbacks=[watching], **options)
    return name_bottleneck(watching.watch.pipeline_record(wait_s), 0.9, wait_s)


@pytest.mark.parametrize(
    ("data", "options", "name"),
    [
        (Files, {}, "Files.__getitem__"),
        (rows, {"steps_per_epoch": 6}, "rows"),
        (
            lambda: tf.data.Dataset.from_generator(lambda: rows(), output_signature=SIGNATURE),
            {"steps_per_epoch": 6},
            "rows",
        ),
    ],
    ids=["PyDataset", "generator", "from_generator"],
)
def test_a_generator_goes_by_what_the_user_wrote(data, options, name):
    stages = {stage.kind: stage for stage in watched_fit(data(), **options).stages}
    assert stages["generator"].name == name
    assert stages["generator"].work == "python"
    assert stages["generator"].location.startswith(f"{HERE}:")


def test_what_keras_makes_of_arrays_is_called_its_own():
    inputs = np.ones((96, FEATURES), "float32")
    record = watched_fit(inputs, y=inputs[:, :1], batch_size=8)
    assert "Keras' own batching of arrays" in {stage.name for stage in record.stages}


# The whole way, from a run to its record.


def slow(x):
    sleeping = tf.data.Dataset.from_tensors(x).apply(sleep_in_tensorflow(0.002))
    return tf.ensure_shape(sleeping.get_single_element(), [FEATURES])


def features(x):
    return tf.fill([FEATURES], tf.cast(x, tf.float32))


def pair(x):
    return x, tf.reduce_sum(x, axis=1, keepdims=True)


def pipeline(batches=12):
    numbers = tf.data.Dataset.range(4 * batches).map(features).shuffle(8)
    return numbers.map(slow).batch(4).map(pair, name="pairing").prefetch(2)


def test_the_slow_stage_is_the_bottleneck():
    record = watched_fit(pipeline(), epochs=2)
    assert record.bottleneck.name == "slow"
    assert record.bottleneck in record.stages
    assert record.unknown_because is None
    assert record.balanced_because is None
    names = [stage.name for stage in record.stages]
    assert names.index("pairing") < names.index("slow") < names.index("shuffle")


@pytest.mark.parametrize(
    "doing_nothing",
    [
        lambda data: data.map(lambda *batch: batch),
        lambda data: data.unbatch().batch(4),
        lambda data: data.rebatch(4),
    ],
    ids=["map", "unbatch", "rebatch"],
)
def test_maps_that_tf_data_leaves_out_take_no_name_from_others(doing_nothing):
    def slow_batch(x):
        return tf.map_fn(slow, x)

    batches = tf.data.Dataset.range(48).map(features).batch(4).map(slow_batch).map(pair)
    record = watched_fit(doing_nothing(batches).prefetch(2), epochs=2)
    assert record.bottleneck.name == "slow_batch"


def test_time_that_nothing_shows_names_nobody():
    pairs = tf.data.Dataset.range(48).map(features).batch(4).map(pair)
    record = watched_fit(pairs.apply(sleep_in_tensorflow(0.05)), wait_s=0.05)
    assert record.bottleneck is None
    assert "tf.data accounts for" in record.unknown_because
    assert PipelineWatch().pipeline_record(0.01).unknown_because  # of an unread pipeline


def test_long_runs_take_no_more_memory_and_keep_the_newest_reading():
    watch = PipelineWatch()
    _iterator = follow(watch, tf.data.Dataset.range(500), 300)
    assert sum(map(len, watch._passes)) <= 20
    newest = watch.latest_model()
    assert newest.nodes[newest.output].num_elements == 300


def test_without_names_stages_go_by_their_kinds(monkeypatch, caplog):
    def gone(dataset):
        raise AttributeError("_inputs")

    monkeypatch.setattr(stage_module, "inputs", gone)
    record = watched_fit(pipeline())
    assert record.bottleneck.name == record.bottleneck.kind == "map and batch"
    assert "Naming the stages" in caplog.text


def test_replicas_that_share_a_pipeline_are_out_of_sight(run_script):
    script = """
import tensorflow as tf
from helpers.training import mirrored_cpus
from keras_gpukit.frameworks.tf_datasets import host_iterator, read_model
from keras_gpukit.input.wait.watch import PipelineWatch

strategy = mirrored_cpus()
dataset = tf.data.Dataset.range(64).batch(4).prefetch(2)
distributed = iter(strategy.experimental_distribute_dataset(dataset))
host = host_iterator(distributed)
watch = PipelineWatch()
watch.follow(host)
for _ in range(3):
    next(distributed)
    watch.add_reading(read_model(host))
print(watch.pipeline_record(0.01).unknown_because)
"""
    assert "replicas share the pipeline" in run_script(script).stdout


@pytest.mark.parametrize(
    ("operations", "work"),
    [
        (["Cast", "DecodeJpeg"], "decoding"),
        (["ParseExampleV2"], "parsing"),
        (["ReadFile"], "reading"),
        (["ReadFile", "DecodePng"], "decoding"),
        (["DecodePng", "EagerPyFunc"], "python"),
        (["Mul"], "mapping"),
    ],
)
def test_operations_tell_what_a_function_does(operations, work):
    assert work_of(operations) == work


# Contention.


def contention_of(*late_s, cores=4, process=0.0, queued=0.0, stolen=0.0):
    """What is measured where sleepers wake too late; the others are shares of the time."""
    now_s = reading_late_s = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds + reading_late_s

    with pytest.MonkeyPatch.context() as patch:
        clock = contextlib.nullcontext(lambda: queued * now_s)
        patch.setattr(interpreter, "usable_cores", lambda: cores)
        patch.setattr(interpreter, "_queued_for_a_core", lambda: clock)
        patch.setattr(interpreter, "_stolen_from_a_core_s", lambda: stolen * now_s)
        sensor = interpreter.ContentionSensor(
            sleep=sleep, now=lambda: now_s, process_s=lambda: process * now_s
        )
        for each_s in late_s:
            reading_late_s = each_s
            sensor.take_naps()
        return sensor.contention_record()


@pytest.mark.parametrize(("late_s", "busy"), [(0.0001, 0.95), (0.005, 0.5)])
def test_contention_is_measured(late_s, busy):
    record = contention_of(late_s, late_s, late_s, process=4 * busy)
    assert record.gil_wait_s == pytest.approx(late_s)
    assert record.cores_busy_fraction == pytest.approx(busy)
    # Held for a third of the time, it is waited for in a third of the readings; the largest of
    # ten may come of something else.
    record = contention_of(*[late_s] * 3, *[0.0] * 6, 1.0)
    assert record.gil_wait_s == pytest.approx(late_s / 3)
    # A wait for a core is no wait for the lock.
    assert contention_of(0.005, queued=1.0).gil_wait_s == 0.0
    # The time that other guests of a host took was not there to be used.
    record = contention_of(0.0, cores=2, process=2 * 0.6, stolen=0.25)
    assert record.cores_busy_fraction == pytest.approx(0.8)


@pytest.mark.parametrize("steps", [20, pytest.param(188, marks=pytest.mark.long)])
def test_the_slow_stage_of_short_epochs_is_named(steps):
    # At an epoch's end the pipeline has let its stages go, while batches are still in buffers.
    # It sleeps, as work would wait for a core on a busy machine, which tf.data does not count.
    def slow_map(number):
        sleeping = tf.data.Dataset.from_tensors(number).apply(sleep_in_tensorflow(0.0005))
        return features(sleeping.get_single_element()), tf.zeros([1])

    data = tf.data.Dataset.range(steps * 16).map(slow_map).shuffle(100).batch(16)
    pipeline = input_of(data, epochs=3).pipeline
    assert pipeline.bottleneck is not None, pipeline.unknown_because
    named, per_batch_s = pipeline.bottleneck, pipeline.bottleneck.cost_per_batch_s
    assert named.name == "slow_map"
    assert per_batch_s == pytest.approx(16 * named.cost_s, rel=0.3)


def test_stages_that_a_shuffle_has_emptied_are_seen_while_it_fills():
    watch = PipelineWatch()

    def load(number):
        if number == 150:  # as the sampling thread does now and then
            watch.poll()
        return number

    loaded = tf.data.Dataset.range(200).map(
        lambda number: tf.numpy_function(load, [number], tf.int64)
    )
    data = loaded.filter(lambda number: number % 10 == 0).shuffle(20).batch(4)
    for _ in range(2):
        _iterator = follow(watch, data, 1)
    starts = {stage.kind: stage for stage in watch.pipeline_record(None).starts}
    assert (starts["map"].name, starts["map"].elements) == ("load", 150)
    assert starts["map"].used == pytest.approx(0.1)
    assert starts["filter"].used == 1.0


def test_what_flat_map_makes_is_its_own_cost():
    data = tf.data.Dataset.range(400).window(50, shift=1, drop_remainder=True)
    watch = PipelineWatch()

    def slowly(window):  # so that no load of the machine makes another stage slower
        return window.batch(50).apply(sleep_in_tensorflow(0.005))

    _iterator = follow(watch, data.flat_map(slowly).batch(16), 12)
    made_by = max(watch.pipeline_record(None).stages, key=lambda stage: stage.share)
    assert made_by.kind == "flat_map"
    assert made_by.location is not None


def test_what_concatenate_joins_counts_for_the_elements_that_it_gives():
    rows = Node(3, "TensorSlice", 980, 0.98)
    first = reading(Node(1, "Root", 0, 0.0, inputs=(2,)), Node(2, "Concatenate", 0, 0.0))
    middle = reading(
        Node(1, "Root", 980, 0.0, inputs=(2,)), Node(2, "Concatenate", 980, 0.1, inputs=(3,)), rows
    )
    maps = Node(4, "ParallelMap", 20, 0.1)
    last = reading(
        Node(1, "Root", 1000, 0.0, inputs=(2,)),
        Node(2, "Concatenate", 1000, 0.1, inputs=(4,)),
        maps,
    )
    output, _ = measure([[first, middle, last]])
    parts = by_kind(output)
    assert parts["TensorSlice"].per_batch == pytest.approx(0.98)
    assert parts["ParallelMap"].cost_per_batch_s == pytest.approx(0.1 / 1000)


def test_a_long_chain_of_concatenate_is_one_stage(caplog):
    rows = np.zeros((20, 4), "float32")
    joined = tf.data.Dataset.from_tensor_slices(rows)
    for _ in range(299):
        joined = joined.concatenate(tf.data.Dataset.from_tensor_slices(rows))
    watch = PipelineWatch()
    follow(watch, joined.map(lambda row: row + 1).batch(20), 100)
    stages = watch.pipeline_record(wait_s=0.01).stages
    (chain,) = (each for each in stages if each.kind == "concatenate")
    assert (chain.joined, chain.elements) == (300, pytest.approx(20.0, rel=0.1))
    assert max(stages, key=lambda each: each.cost_per_batch_s or 0.0) == chain
    kinds = [each.kind for each in stages]
    assert kinds == ["map and batch", "concatenate", "from_tensor_slices"]
    assert not caplog.records
