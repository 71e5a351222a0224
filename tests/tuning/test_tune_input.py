import ast
import functools
import gc
import itertools
import os
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.stopped_clock import StoppedClock
from helpers.training import small_model

import keras_gpukit
from keras_gpukit.frameworks import tf_datasets, tf_stages
from keras_gpukit.frameworks.tf_datasets import kind, stages
from keras_gpukit.input.pipelines import functions, randomness
from keras_gpukit.input.pipelines.randomness import impurities, varies
from keras_gpukit.input.pipelines.rebuilding import changeable, is_known, rebuilt
from keras_gpukit.records import Trial, TuningRecord, from_dict, to_dict
from keras_gpukit.rules.gains import advise
from keras_gpukit.tuning import caching
from keras_gpukit.tuning import pipeline_changes as changes
from keras_gpukit.tuning import trials as rounds_module
from keras_gpukit.tuning.as_code import code
from keras_gpukit.tuning.caching import CachePermission
from keras_gpukit.tuning.pipeline_changes import Allowed
from keras_gpukit.tuning.pipeline_tuning import PipelineTuning, PyDatasetTuning, traits
from keras_gpukit.tuning.reading import Readings
from keras_gpukit.tuning.trials import Proposal, Trials
from keras_gpukit.tuning.tune_input import tune_input

COUNT = 48


@pytest.fixture(autouse=True)
def _no_seed_of_other_tests():
    # With a global seed every random operation is a seeded one.
    tf.random.set_seed(None)


def double(x):
    return 2 * x


def halve(x):
    return x // 2


def pair(x):
    return {"x": x, "y": tf.cast(x, tf.float32) / 3}


def is_even(x):
    return x % 2 == 0


def three(x):
    return tf.data.Dataset.range(x, x + 3)


def at_random(x):
    return tf.cast(x, tf.float32) + tf.random.uniform(())


def seeded(x):
    return tf.random.uniform((), seed=3)


def in_python(x):
    return tf.numpy_function(lambda value: value + 1, [x], tf.int64)


def generated(make):
    return tf.data.Dataset.from_generator(make, output_signature=tf.TensorSpec((), tf.int64))


def numbers():
    return tf.data.Dataset.range(COUNT)


def rerandomized():
    return tf.data.Dataset.random(seed=1, rerandomize_each_iteration=True)


def zipped():
    features = numbers().map(double)
    return tf.data.Dataset.zip((features, numbers().map(halve))).shuffle(9, seed=4).batch(5)


def shuffled_twice():
    source = numbers().shuffle(8, seed=1)
    return source.concatenate(source.map(double)).batch(7)


def reordering_options():
    options = tf.data.Options()
    options.deterministic = False
    return numbers().map(double).batch(4).with_options(options)


def text_files():
    files = [Path(tempfile.mkdtemp(), f"{number}.txt") for number in range(3)]
    for file in files:
        file.write_text("\n".join(f"{file.stem}-{line}" for line in range(int(file.stem), 9)))
    return tf.data.TextLineDataset([*map(str, files)]).batch(4)


PIPELINES = {
    "map": lambda: numbers().map(double).batch(4),
    "map of a structure": lambda: numbers().map(pair).batch(4, drop_remainder=True),
    "map without a parallel order": reordering_options,
    "shuffle once": lambda: (
        numbers().shuffle(10, seed=3, reshuffle_each_iteration=False).map(double).batch(8)
    ),
    "shuffle, repeat, map": lambda: (
        numbers().shuffle(COUNT, seed=5).repeat(2).map(double).map(halve).batch(8)
    ),
    "two shuffles": lambda: (
        numbers().shuffle(6, seed=1).map(double).batch(8).shuffle(6, seed=2).map(pair)
    ),
    "cache too low": lambda: numbers().cache().map(double).map(halve).shuffle(9, seed=2).batch(5),
    "filter": lambda: numbers().map(double).filter(is_even).map(halve).batch(4),
    "take after shuffle": lambda: numbers().shuffle(9, seed=2).map(double).take(20).batch(4),
    "take, skip, shard": lambda: numbers().take(40).skip(3).shard(2, 1).map(double).batch(4),
    "flat_map": lambda: numbers().flat_map(three).map(double).batch(4),
    "interleave": lambda: (
        numbers().interleave(three, cycle_length=3, block_length=2).map(double).batch(4)
    ),
    "interleave, automatic": lambda: numbers().interleave(three).map(double).batch(4),
    "parallel already": lambda: (
        numbers()
        .interleave(three, cycle_length=3, num_parallel_calls=2)
        .map(double, num_parallel_calls=2)
        .batch(4, num_parallel_calls=2)
        .prefetch(2)
    ),
    "text files": text_files,
    "random numbers": lambda: rerandomized().take(40).map(halve).batch(4),
    "random numbers, again": lambda: tf.data.Dataset.random(seed=1).take(40).map(halve).batch(4),
    "zip": zipped,
    "one shuffle read twice": shuffled_twice,
    "unbatch": lambda: numbers().batch(6).map(pair).unbatch().shuffle(5, seed=1).batch(4),
    "enumerate": lambda: numbers().map(double).enumerate().batch(4),
    "padded_batch": lambda: numbers().map(double).padded_batch(4).map(double),
    "padded_batch of a structure": lambda: (
        numbers().map(pair).shuffle(9, seed=2).padded_batch(5, drop_remainder=True)
    ),
    "window": lambda: (
        numbers().map(double).window(4, drop_remainder=True).flat_map(lambda part: part.batch(4))
    ),
    "slices": lambda: tf.data.Dataset.from_tensor_slices(np.arange(COUNT)).map(double).batch(4),
}

# What is not read from the pipeline as a method call with its arguments.
ODD_STAGES = {
    "choose": lambda: tf.data.Dataset.choose_from_datasets(
        [numbers(), numbers()], numbers().map(lambda x: x % 2)
    ),
    "sample": lambda: tf.data.Dataset.sample_from_datasets([numbers(), numbers()], seed=1),
    "zip of a dictionary": lambda: tf.data.Dataset.zip({"a": numbers(), "b": numbers()}),
    "layer": lambda: numbers().map(keras.layers.Rescaling(0.1)),
    "partial": lambda: numbers().map(functools.partial(tf.add, np.int64(1))),
    "take_while": lambda: numbers().take_while(lambda x: x < 9),
    "buckets": lambda: numbers().map(tf.range).bucket_by_sequence_length(tf.size, [8], [4, 4]),
    "ragged_batch": lambda: numbers().map(tf.range).ragged_batch(4),
    "sparse_batch": lambda: numbers().map(lambda x: x[None]).sparse_batch(4, [4]),
    "random": lambda: tf.data.Dataset.random(seed=1).take(9),
    "generator": lambda: generated(lambda: iter(range(3))),
    "files": lambda: tf.data.Dataset.list_files(__file__, shuffle=False),
    "scan": lambda: numbers().scan(np.int64(0), lambda state, x: (state + x, state)),
    "unique": lambda: numbers().unique(),
    "sliding windows": lambda: keras.utils.timeseries_dataset_from_array(
        np.arange(20), None, sequence_length=4
    ),
}

# Where order may change; in others, which elements there are depends on the order of those before.
REORDERED = ("map", "shuffle, repeat, map", "interleave", "text files", "one shuffle read twice")

PROPOSALS = (
    *(changes.autotuning, changes.parallel_maps, changes.parallel_files),
    *(changes.parallel_batches, changes.any_order, changes.more_threads, changes.prefetch),
)


def epochs(dataset, count=2):
    return [
        [tf.nest.map_structure(lambda part: np.asarray(part).tolist(), batch) for batch in epoch]
        for epoch in ([*dataset.as_numpy_iterator()] for _ in range(count))
    ]


def changed_in_every_way(dataset, allowed, tmp_path, place):
    """Every change kept, whatever it brings."""
    for propose in PROPOSALS:
        change = propose(dataset, allowed)
        dataset = dataset if change is None else change.dataset
    permission = permitted(place, tmp_path)
    change = caching.propose(dataset, allowed, Readings(str(tmp_path), 0.1), permission)
    assert change.dataset is not None or change.blocked
    if change.dataset is not None:
        dataset = change.dataset
        for stage in stages(dataset):
            if kind(stage) == "Cache":
                permission.make_room(stage)
    return rebuilt(dataset)


def permitted(place, folder=None):
    """Permission to cache, which asks nothing."""
    return CachePermission(place, folder, lambda question: True)


class TestSameElements:
    @pytest.mark.parametrize("name", PIPELINES)
    def test_all_changes_together_give_the_same_in_every_epoch(self, name, tmp_path):
        dataset = PIPELINES[name]()
        place = "disk" if len(name) % 2 else "memory"  # each half of the time
        changed = changed_in_every_way(dataset, Allowed(), tmp_path, place)
        assert kinds(changed) != kinds(dataset)
        found, expected = epochs(changed), epochs(dataset)
        if name == "map without a parallel order":
            expected = [sorted(epoch) for epoch in expected]
            found = [sorted(epoch) for epoch in found]
        assert found == expected

    @pytest.mark.parametrize("name", REORDERED)
    def test_where_order_may_change_the_elements_do_not(self, name, tmp_path):
        def elements(dataset):
            return [sorted(map(str, epoch)) for epoch in epochs(dataset.unbatch())]

        dataset = PIPELINES[name]()
        changed = changed_in_every_way(dataset, Allowed(reorder=True), tmp_path, "memory")
        assert elements(changed) == elements(dataset)

    def test_reading_a_copy_moves_no_order_on(self, tmp_path):
        for make in (lambda: numbers().shuffle(9, seed=2), lambda: rerandomized().take(40)):
            dataset, same = (make().map(double).batch(4) for _ in range(2))
            epochs(rebuilt(dataset), 2)
            Readings(str(tmp_path), 0.01).of(dataset)()
            assert epochs(dataset) == epochs(same)

    def test_no_function_is_traced_anew(self, tmp_path):
        traced = []

        def counted(x):
            traced.append(x)
            return 2 * x

        dataset = numbers().shuffle(4).map(counted).batch(4)
        times = len(traced)
        changed_in_every_way(dataset, Allowed(), tmp_path, "memory")
        assert len(traced) == times


def kinds(dataset):
    return [kind(stage) for stage in stages(dataset)][::-1]


class TestCaching:
    def place(self, dataset, tmp_path, **allowed):
        readings = Readings(str(tmp_path), 0.1)
        change = caching.propose(dataset, Allowed(**allowed), readings, permitted(True))
        return change.blocked or kinds(change.dataset)

    @pytest.mark.parametrize(
        ("stages_before_batches", "expected"),
        [
            (lambda: numbers().shuffle(9).map(double), ["Map", "Cache", "Shuffle"]),
            (lambda: numbers().map(double).map(at_random), ["Map", "Cache", "Map"]),
            (lambda: numbers().cache().map(double).shuffle(4), ["Map", "Cache", "Shuffle"]),
            (lambda: numbers().map(double).repeat(), ["Map", "Cache", "Repeat"]),
        ],
    )
    def test_it_stands_where_its_elements_are_the_same_in_each_epoch(
        self, stages_before_batches, expected, tmp_path
    ):
        found = self.place(stages_before_batches().batch(4), tmp_path)
        assert found == ["Range", *expected, "Batch"]

    def test_python_functions_are_cached_only_if_they_are_trusted(self, tmp_path):
        dataset = numbers().map(in_python).batch(4)
        assert "Cache" not in self.place(dataset, tmp_path)
        assert "Cache" in self.place(dataset, tmp_path, trust_python=True)

    def test_none_where_reading_ends_early_it_does_not_fit_or_time_is_over(
        self, tmp_path, monkeypatch
    ):
        early = numbers().map(double).shuffle(9).take(4).batch(4)
        assert "before a cache would be full" in self.place(early, tmp_path)
        arguments = numbers().map(double), Allowed(), Readings(str(tmp_path), 0.1), permitted(True)
        found = caching.propose(*arguments, lambda: True)
        assert (found.dataset, found.blocked) == (None, "time ran out")
        monkeypatch.setattr(caching, "_free_bytes", lambda place, folder: 10)
        found = self.place(numbers().map(double).batch(4), tmp_path)
        assert "but only 10 B of disk may be used" in found

    def test_on_disk_only_where_the_shuffle_over_it_fits_into_memory(self, tmp_path, monkeypatch):
        def large(x):
            return tf.fill((1000,), x)

        free = {"memory": 100_000, "disk": 1e9}
        monkeypatch.setattr(caching, "_free_bytes", lambda place, folder: free[place])
        for buffer, expected in (
            (4, ["Range", "Map", "Cache", "Shuffle", "Batch"]),
            (COUNT, "shuffling the cached elements"),
            (tf.data.UNKNOWN_CARDINALITY, "shuffling the cached elements"),
        ):
            found = self.place(numbers().shuffle(buffer).map(large).batch(4), tmp_path)
            assert expected == found or expected in found

    def test_on_disk_only_so_many_elements(self, tmp_path, monkeypatch):
        monkeypatch.setattr(caching, "MOST_ON_DISK", COUNT - 1)
        arguments = (Allowed(), Readings(str(tmp_path), 0.1), permitted("disk"))
        assert "too many" in caching.propose(numbers().map(double).shuffle(3), *arguments).blocked
        assert caching.propose(numbers().map(double).take(9), *arguments).dataset is not None

    def test_elements_are_counted_once_for_all_places(self, tmp_path, monkeypatch):
        counted = []
        monkeypatch.setattr(Readings, "count", lambda self, ready: counted.append(ready))
        monkeypatch.setattr(caching, "_free_bytes", lambda place, folder: 10)
        even = tf.data.Dataset.range(2**40).filter(is_even)
        assert "is unknown" in self.place(even.map(double).map(halve).map(pair), tmp_path)
        assert len(counted) == 1

    def test_what_tensors_and_strings_take_beside_their_values_counts(self, tmp_path):
        texts = tf.data.Dataset.from_tensors((["ab", "cde"], tf.zeros((3,))))
        sample = Readings(str(tmp_path), 1.0).sample(texts)
        assert sample.size_bytes == (128 + 2 * 24 + 5) + (128 + 12)


class TestRandomness:
    def test_what_the_graph_shows_also_within_functions_that_are_called(self):
        assert impurities(numbers().map(double)) == set()
        assert impurities(numbers().map(at_random)) == {"random"}
        assert impurities(numbers().map(in_python)) == {"python"}
        images = tf.data.Dataset.from_tensors(np.zeros((4, 4, 3), "float32"))
        assert "variable" in impurities(images.map(keras.layers.RandomFlip()))
        lookup = keras.layers.StringLookup(vocabulary=["a", "b"])
        assert impurities(tf.data.Dataset.from_tensors(["a"]).map(lookup)) == set()
        assert impurities(numbers().map(seeded)) == {"seeded"}

        @tf.function
        def inner(x):
            return tf.cond(tf.equal(x, 0), lambda: 0.0, lambda: tf.random.uniform(()))

        assert "random" in impurities(numbers().map(inner))

    def test_another_dataset_that_is_read_generators_and_unknown_stages_may_vary(self):
        other = numbers().shuffle(COUNT)
        drawing = numbers().flat_map(lambda x: other.take(2))
        assert impurities(drawing) == {"state"}
        assert "another dataset" in varies(drawing, trust_python=True)
        by_python = generated(lambda: range(3))
        assert "Python" in varies(by_python, trust_python=False)
        assert varies(by_python, trust_python=True) is None
        assert "Random" in varies(tf.data.Dataset.random(), trust_python=True)
        assert "shuffled" in varies(numbers().shuffle(3), trust_python=True)


class TestHindrances:
    @pytest.mark.parametrize(
        ("function", "word"), [(seeded, "reorder"), (in_python, "trust_python")]
    )
    def test_maps_that_would_change_or_are_not_trusted_are_only_told(self, function, word):
        dataset = numbers().map(function).map(double).batch(4)
        hindered = changes.hindered_maps(dataset, Allowed())
        assert function.__name__ in hindered.description
        assert "double" not in hindered.description
        assert f"{word}=True" in hindered.blocked
        assert changes.hindered_maps(dataset, Allowed(**{word: True})) is None

    def test_random_draws_without_a_seed_may_be_parallel_but_none_below_an_unknown_stage(self):
        assert changes.parallel_maps(numbers().map(at_random).batch(4), Allowed()) is not None
        assert changes.parallel_maps(numbers().map(double).window(4), Allowed()) is None


class TestPrivateNames:
    def test_every_stage_that_is_known_can_be_made_anew(self):
        of_all = [stage for make in PIPELINES.values() for stage in stages(make())]
        found = {kind(stage) for stage in of_all if is_known(stage)}
        parallel = changes.parallel_files(PIPELINES["flat_map"](), Allowed()).dataset
        found |= {kind(stage) for stage in stages(parallel)}
        assert found >= set(tf_stages.OPERATIONS) | {"Zip", "Concatenate", "Options"}

    def test_where_a_name_is_gone_a_stage_counts_as_unknown(self):
        dataset = numbers().map(double).batch(4)
        del dataset.__dict__["_batch_size"]
        assert not is_known(dataset)
        assert changeable(dataset) == [dataset]
        change = changes.prefetch(dataset, Allowed())
        assert kinds(change.dataset)[-1] == "Prefetch"


class TestHelpers:
    """Pipelines that a helper of TensorFlow or Keras makes in one call."""

    def csv(self, tmp_path, **options):
        path = tmp_path / "rows.csv"
        path.write_text("a,b,y\n" + "1.5,x,0\n2.5,y,1\n" * 20)
        options |= {"batch_size": 4, "label_name": "y"}
        dataset = tf.data.experimental.make_csv_dataset(str(path), **options)
        lookup = keras.layers.StringLookup(vocabulary=["x", "y"])

        def encode(features, target):
            return {**features, "b": lookup(features["b"])}, target

        return dataset.map(encode).prefetch(1)

    def cached(self, dataset, tmp_path):
        readings = Readings(str(tmp_path), 0.5)
        return caching.propose(dataset, Allowed(), readings, permitted("memory"))

    def test_a_csv_file_is_cached_after_it_is_parsed(self, tmp_path):
        dataset = self.csv(tmp_path, num_epochs=1, shuffle=False)
        change = self.cached(dataset, tmp_path)
        assert code(dataset, change.dataset).splitlines() == [
            "dataset = (",
            "    tf.data.experimental.make_csv_dataset(...)",
            "        .map(encode)",
            "        .cache()  # new",
            "        .prefetch(1)",
            ")",
        ]
        assert epochs(change.dataset) == epochs(dataset)
        assert changes.parallel_batches(dataset, Allowed()) is None  # its inside stays

    def test_one_that_is_shuffled_within_is_told_how_to_be_cached(self, tmp_path):
        change = self.cached(self.csv(tmp_path, num_epochs=1), tmp_path)
        assert change.dataset is None
        assert "shuffle=False" in change.blocked

    def test_images_of_a_directory_are_cached_before_the_shuffle(self, tmp_path):
        for number in range(6):
            folder = tmp_path / "images" / "ab"[number % 2]
            folder.mkdir(parents=True, exist_ok=True)
            keras.utils.save_img(folder / f"{number}.png", np.full((8, 8, 3), number))
        options = {"image_size": (8, 8), "batch_size": 2, "seed": 1, "verbose": False}
        dataset = keras.utils.image_dataset_from_directory(tmp_path / "images", **options)
        change = self.cached(dataset, tmp_path)
        lines = code(dataset, change.dataset).splitlines()
        call = "keras.utils.image_dataset_from_directory(..., batch_size=None, shuffle=False)"
        assert lines[1].strip().startswith(call)
        named = [line.strip().split("(")[0] for line in lines[2:-1]]
        assert named == [".cache", ".shuffle", ".batch", ".prefetch"]

    def test_what_is_only_appended_goes_on_from_the_users_variable(self):
        dataset = numbers().map(lambda x: x).batch(4)
        lines = code(dataset, dataset.prefetch(2)).splitlines()
        assert lines == ["dataset = (", "    dataset", "        .prefetch(2)  # new", ")"]


class TestCode:
    def test_what_differs_is_marked(self, tmp_path):
        dataset = numbers().shuffle(9, seed=1).map(double).batch(4)
        changed = changed_in_every_way(dataset, Allowed(), tmp_path, "memory")
        assert code(dataset, changed).splitlines() == [
            "dataset = (",
            "    tf.data.Dataset.range(...)",
            "        .map(double, num_parallel_calls=tf.data.AUTOTUNE)  # new",
            "        .cache()  # new",
            "        .shuffle(9, seed=...)",
            "        .batch(4, num_parallel_calls=tf.data.AUTOTUNE)  # changed",
            "        .with_options(tuning_options)  # changed",
            "        .prefetch(tf.data.AUTOTUNE)  # changed",
            ")",
        ]

    def test_options_of_the_users_own_keep_their_name(self):
        dataset = reordering_options()
        change = changes.more_threads(changes.parallel_maps(dataset, Allowed()).dataset, Allowed())
        lines = code(dataset, rebuilt(change.dataset))
        assert ".with_options(options)\n" in lines
        assert ".with_options(tuning_options)" in lines
        assert all(line.startswith("tuning_options") for line in change.lines)

    def test_joined_pipelines_stand_within_each_other(self):
        joined = zipped().map(tf.add).concatenate(numbers().map(halve).batch(5))
        assert code(joined.take(9), joined.prefetch(2)).splitlines() == [
            "dataset = (",
            "    tf.data.Dataset.zip(",
            "        tf.data.Dataset.range(...)",
            "            .map(double),",
            "        tf.data.Dataset.range(...)",
            "            .map(halve),",
            "    )",
            "        .shuffle(9, seed=...)",
            "        .batch(5)",
            "        .map(...)",
            "        .concatenate(",
            "            tf.data.Dataset.range(...)",
            "                .map(halve)",
            "                .batch(5)",
            "        )",
            "        .prefetch(2)  # changed",
            ")",
        ]

    @pytest.mark.parametrize("name", [*PIPELINES, *ODD_STAGES])
    def test_it_is_python_with_methods_that_there_are(self, name):
        made = {**PIPELINES, **ODD_STAGES}[name]().repeat(2)
        written = code(made, tf.data.Dataset.zip((made, made)).prefetch(1))
        called = [node for node in ast.walk(ast.parse(written)) if isinstance(node, ast.Call)]
        assert called
        for call in called:
            assert any(hasattr(each, call.func.attr) for each in (tf.data.Dataset, keras.utils))
        assert "flat_map_fn" not in written


def advice_on(dataset):
    return advise(traits(dataset, trust_python=False))


class TestAdvice:
    def test_a_cache_that_freezes_what_should_vary_and_shuffling_what_a_map_makes(self):
        dataset = numbers().map(at_random).cache().batch(32)
        assert "cache before" in advice_on(dataset)[0]
        lines = advice_on(numbers().map(double).shuffle(30).batch(32))
        assert "Shuffle before double" in lines[0]

    def test_small_batches_what_is_done_for_each_element_and_what_python_makes(self):
        lines = advice_on(numbers().map(double).batch(2))
        assert "Batches of 2" in lines[0]
        assert "double" in lines[1]

        def one(x):
            return tf.data.Dataset.from_tensors(x).map(double)

        assert "one makes a dataset" in advice_on(numbers().flat_map(one))[0]
        assert advice_on(numbers().flat_map(lambda x: one(x).repeat(2))) == []
        [line] = advice_on(generated(lambda: iter([1])).batch(32))
        assert "The generator runs in Python" in line
        [line] = advice_on(numbers().map(slow_in_python).prefetch(2))
        assert "slow_in_python runs in Python" in line


def slow_in_python(x):
    def wait(value):
        time.sleep(0.004)
        return value

    return tf.numpy_function(wait, [x], tf.int64)


def slow_dataset():
    return tf.data.Dataset.range(200).map(slow_in_python).batch(4)


QUIETLY = {"verbose": False}


@pytest.fixture
def clock(monkeypatch):
    return StoppedClock.of(monkeypatch, rounds_module)


def rates_with(monkeypatch, stage, rate):
    """Makes pipelines with a kind of stage read at a rate, and others at 10."""

    def of(readings, dataset, consumer_s=0.0):
        return lambda: rate if stage in kinds(dataset) else 10.0

    monkeypatch.setattr(Readings, "of", of)


def trials_on(read, seconds=60):
    """Trials of functions that stand for pipelines and return their rates."""
    options = {"seconds": seconds, "compute_rate": None, "show_progress": lambda what: None}
    return Trials(read, lambda function, pause_s: function, **options)


class TestTuneInput:
    def test_a_slow_map_becomes_parallel(self, monkeypatch):
        rates_with(monkeypatch, "ParallelMap", 50.0)
        dataset = slow_dataset()
        dataset.class_names = ["a", "b"]  # as Keras' own loaders do
        tuned = tune_input(dataset, seconds=4, cache=False, trust_python=True, **QUIETLY)
        assert tuned.dataset.class_names == ["a", "b"]
        trial = next(each for each in tuned.trials if each.change == "parallel-map")
        assert trial.kept
        assert [trial.low, tuned.record.gain] == pytest.approx([5.0, 5.0])
        assert ".map(slow_in_python, num_parallel_calls=tf.data.AUTOTUNE)  # changed" in tuned.code
        text = str(tuned)
        assert "95 %" in text
        assert "slow_in_python" in text

    def test_python_that_is_not_trusted_never_runs_twice_at_once(self):
        running, most = [], []

        def alone(value):
            running.append(value)
            most.append(len(running))
            time.sleep(0.002)
            running.remove(value)
            return value

        calls = tf.data.Dataset.range(400).map(lambda x: tf.numpy_function(alone, [x], tf.int64))
        dataset = calls.batch(4)
        tuned = tune_input(dataset, seconds=2, cache=False, **QUIETLY)
        trial = next(each for each in tuned.trials if each.change == "parallel-map")
        assert trial.gain is None
        assert not trial.kept
        assert "trust_python=True" in trial.note
        assert max(most) == 1

    def test_what_is_suggested_or_printed_never_caches_a_shuffled_order(self, monkeypatch):
        rates_with(monkeypatch, "Cache", 100.0)
        dataset = numbers().map(double).shuffle(30).map(at_random).batch(32)
        suggested = tune_input(dataset, seconds=4, **QUIETLY)
        assert "a cache would make it 10.00× faster: pass cache=True" in str(suggested)
        [line] = [line for line in suggested.record.advice if "Shuffle before double" in line]
        assert "Not with a cache: it comes before the shuffle" in line
        kept = tune_input(dataset, seconds=4, cache=True, **QUIETLY)
        assert kept.trials[0].change == "cache-memory"  # what brings most is tried first
        assert kept.code.index(".cache()") < kept.code.index(".shuffle(")
        assert not any("Shuffle before" in line for line in kept.record.advice)

    def test_a_cache_on_disk_goes_with_its_dataset(self, tmp_path, monkeypatch):
        rates_with(monkeypatch, "Cache", 50.0)
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        tuned = tune_input(slow_dataset(), seconds=15, cache="disk", trust_python=True, **QUIETLY)
        assert any(trial.change == "cache-disk" and trial.kept for trial in tuned.trials)
        assert [len(epoch) for epoch in epochs(tuned.dataset, 2)] == [50, 50]
        assert len(list(tmp_path.glob("keras_gpukit-cache-*/*"))) > 0
        del tuned
        gc.collect()
        assert list(tmp_path.glob("keras_gpukit-cache-*")) == []

    def test_a_folder_given_for_caches_is_tried_and_left_empty_in_vain(self, tmp_path, monkeypatch):
        seen = []

        def kept(self, proposal, decide=None):
            seen.extend([proposal.name, *os.listdir(tmp_path)])
            return Trial(proposal.name, proposal.description, kept=True)

        monkeypatch.setattr(Trials, "run", kept)
        monkeypatch.setattr(Trials, "confirm", lambda self, best: None)
        dataset = numbers().map(double).batch(4)
        tune_input(dataset, seconds=2, cache="disk", cache_folder=tmp_path, **QUIETLY)
        assert "cache-disk" in seen
        assert any(name.startswith("keras_gpukit-") for name in seen)
        assert list(tmp_path.iterdir()) == []

    def test_the_code_names_no_temporary_folder(self, tmp_path):
        permission = permitted("disk")
        dataset = numbers().map(double).batch(4)
        tuning = PipelineTuning(dataset, Allowed(), permission, Readings(str(tmp_path), 0.1))
        tuned = numbers().map(double).cache(permission.path).batch(4)
        lines = tuning.finish(tuned, SimpleNamespace(lines=[])).splitlines()
        assert lines[0].startswith("#")
        assert '        .cache("cache/elements")  # new' in lines

    def test_a_shuffle_that_reading_moves_on_is_told(self, tmp_path):
        shuffled = numbers().shuffle(9, seed=1)
        advanced = [shuffled.window(4), rerandomized().take(9).window(4)]
        others = [numbers().shuffle(9).window(4), rerandomized().take(9).batch(4)]
        others += [shuffled.padded_batch(4), shuffled.cache().batch(4)]
        for number, given in enumerate([*advanced, *others]):
            readings = Readings(str(tmp_path), 0.1)
            tuning = PipelineTuning(given, Allowed(), permitted(False), readings)
            told = any("advanced them" in line for line in tuning.advice(given))
            assert told == (number < len(advanced))

    def test_what_cannot_be_begun_again_is_refused(self):
        once = iter(range(40))
        used_up = generated(lambda: once).batch(4)
        for dataset in (used_up, numbers().filter(lambda x: x < 0).batch(4)):
            with pytest.raises(ValueError, match="iterate over it again"):
                tune_input(dataset, seconds=1, **QUIETLY)

    def test_waiting_for_an_answer_takes_no_time_from_the_trials(self, clock):
        def answer(gain):
            clock.now_s += 0.6
            return ""

        trials = trials_on(lambda: 1.0, seconds=0.5)
        assert trials.run(Proposal("cache", "", lambda: 2.0), answer).kept
        assert trials.ending is None

    def test_time_that_is_left_goes_into_the_last_comparison(self, clock):
        calls = []

        def first():
            clock.now_s += 0.1
            calls.append("first")
            return 1.0

        trials = trials_on(first, seconds=6)
        trials.run(Proposal("", "", lambda: 2.0))
        calls.clear()
        assert trials.confirm(lambda: 1.0).gain == pytest.approx(2)  # of one change all is known
        assert not calls
        trials.run(Proposal("", "", lambda: 4.0))
        unclear = itertools.cycle([0.5, 3.0])
        assert trials.confirm(lambda: next(unclear)) is None
        assert len(calls) == rounds_module.MOST
        assert {trial.note for trial in trials.done} == {"its gain did not hold"}

    @pytest.mark.parametrize(
        ("gain", "noise", "note"),
        [
            (1.08, 1.08, ""),
            (1.04, 1.02, "less than 5 % faster"),
            (1.1, 1.5, "no gain outside the noise"),
            (1.0, 1.02, "no faster"),
        ],
    )
    def test_what_is_kept_is_faster_and_by_enough(self, gain, noise, note):
        rates = itertools.cycle([gain * noise, gain / noise])
        trial = trials_on(lambda: 1.0).run(Proposal("", "", lambda: next(rates)))
        assert trial.gain == pytest.approx(gain, rel=0.01)
        assert trial.kept == (not note)
        assert trial.note == note

    def test_nothing_is_claimed_where_nothing_helps(self, monkeypatch):
        monkeypatch.setattr(Readings, "of", lambda *arguments: lambda: 10.0)
        dataset = tf.data.Dataset.from_tensors(np.zeros((8, 4))).repeat(64).prefetch(4)
        tuned = tune_input(dataset, seconds=4, **QUIETLY)
        assert tuned.trials
        assert not any(trial.kept for trial in tuned.trials)
        assert tuned.dataset is dataset
        assert tuned.code == ""
        assert tuned.record.gain == 1.0

    def test_it_stops_at_the_models_rate(self, monkeypatch):
        monkeypatch.setattr(Readings, "of", lambda *arguments: lambda: 1e6)
        model = small_model(run_eagerly=True)
        weights = [np.array(weight) for weight in model.get_weights()]
        data = np.zeros((64, 8), "float32"), np.zeros((64, 1), "float32")
        dataset = tf.data.Dataset.from_tensor_slices(data).batch(4)
        tuned = tune_input(model, dataset, seconds=2, **QUIETLY)
        assert tuned.record.ending == "the model is no faster"
        assert tuned.record.compute_rate.median > 0
        assert tuned.dataset is dataset
        assert all(map(np.array_equal, weights, model.get_weights()))
        assert not model.optimizer.built

    def test_a_py_dataset_gets_workers(self, monkeypatch):
        class Numbers(keras.utils.PyDataset):
            def __getitem__(self, index):
                return np.full((2, 3), index, "float32"), np.zeros(2)

        def reader(tuning, dataset, pause_s=0.0):
            return lambda: 10.0 * max(dataset.workers, 1)

        monkeypatch.setattr(PyDatasetTuning, "reader", reader)
        dataset = Numbers()
        tuned = tune_input(dataset, seconds=8, **QUIETLY)
        assert tuned.dataset.workers > 1
        assert dataset.workers == 1
        assert f"dataset.workers = {tuned.dataset.workers}" in tuned.code
        assert tuned.record.gain == pytest.approx(tuned.dataset.workers)

    def test_a_py_datasets_lists_are_structures(self):
        class Lists(keras.utils.PyDataset):
            def __getitem__(self, index):
                return [[np.zeros((2, 3)), np.zeros((2, 1))], {"y": [np.zeros(2)]}]

        batches = PyDatasetTuning(Lists(), 0.1, processes=False).batches()
        (first, second_input), targets = batches.element_spec
        assert (first.shape, second_input.shape) == ((2, 3), (2, 1))
        assert targets["y"][0].shape == (2,)

    def test_nothing_is_left_behind_after_an_interrupt(self, tmp_path, monkeypatch):
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        generator = tf.random.Generator.from_seed(1)
        state, numpy_state = generator.state.numpy(), np.random.get_state()[1].copy()
        runs = []

        def interrupted(self, proposal, decide=None):
            if proposal.dataset is not None:
                self._reader(proposal.dataset, 0.0)()
            runs.append(proposal)
            if len(runs) == 3:
                raise KeyboardInterrupt
            return Trial(proposal.name, proposal.description, kept=True)

        def drawn(x):
            by_numpy = tf.numpy_function(np.random.rand, [], tf.float64)
            return generator.uniform((), dtype=tf.float64) + by_numpy

        dataset = tf.data.Dataset.range(40).map(drawn).batch(4)
        monkeypatch.setattr(Trials, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            tune_input(dataset, seconds=4, cache="disk", trust_python=True, **QUIETLY)
        assert list(tmp_path.glob("keras_gpukit*")) == []
        assert np.array_equal(generator.state.numpy(), state)
        assert np.array_equal(np.random.get_state()[1], numpy_state)

    def test_without_the_private_names_only_the_top_is_tried(self, monkeypatch):
        for module in (tf_datasets, functions, tf_stages, randomness):
            monkeypatch.setattr(module, "is_readable", lambda stage: False)
        dataset = tf.data.Dataset.range(400).map(double).batch(4)
        tuned = tune_input(dataset, seconds=2, cache=True, **QUIETLY)
        assert {trial.change for trial in tuned.trials} <= {"cache", "prefetch"}
        assert epochs(tuned.dataset, 1) == epochs(dataset, 1)

    def test_in_a_terminal_it_asks_before_it_caches(self, monkeypatch):
        questions = []
        for stream in ("stdin", "stdout"):
            monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True, raising=False)
        gain = rounds_module.compare(lambda: 1.0, lambda: 2.0, threshold=1.0, seconds=1)
        for answer, reason in ((True, ""), (False, "not wanted")):
            ask = CachePermission("ask", None, lambda q, a=answer: questions.append(q) or a)
            assert ask.decide("cache the output of load", gain) == reason
        assert questions[0] == "2.0× faster: cache the output of load?"

    def test_time_runs_out(self, capsys, monkeypatch, clock):
        def read():
            clock.now_s += 0.1
            return 10.0

        monkeypatch.setattr(Readings, "of", lambda *arguments: read)
        tuned = tune_input(slow_dataset(), seconds=0.5)
        assert tuned.record.ending == "time ran out"
        assert "no change made it faster" in capsys.readouterr().out
        assert from_dict(to_dict(tuned.record), TuningRecord) == tuned.record

    def test_wrong_arguments_are_named(self):
        values = {"model": keras.Sequential([keras.layers.Dense(1)]), "seconds": 0, "cache": "ram"}
        values |= {"cache_folder": "/does/not/exist", "dataset": tf.data.Dataset.range(0).batch(2)}
        types = {"dataset": [1, 2], "seconds": True}
        for error, wrong in ((ValueError, values), (TypeError, types)):
            for name, value in wrong.items():
                with pytest.raises(error, match=rf"{name}.*Received"):
                    tune_input(**{"dataset": numbers().batch(4), **QUIETLY, name: value})

    def test_what_is_given_in_its_place_gets_a_hint_and_an_array_is_not_printed_whole(
        self, monkeypatch
    ):
        with pytest.raises(TypeError, match=r"tune_input\(model, dataset\)\..*Received: "):
            tune_input(numbers().batch(4), keras.Sequential([keras.layers.Dense(1)]))
        with pytest.raises(TypeError, match="from_generator"):
            tune_input((batch for batch in ()), **QUIETLY)
        with pytest.raises(TypeError) as refused:
            tune_input(list(range(1000)), **QUIETLY)
        assert len(str(refused.value)) < 250
        monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
        with pytest.raises(ValueError, match=r"backend.*Received"):
            tune_input(numbers().batch(4), **QUIETLY)

    @pytest.mark.parametrize("verbose", [3, "yes", None])
    def test_verbose_is_the_same_everywhere(self, verbose):
        trials = ("tune_input", "diagnose", "find_batch_size", "predict_memory")
        for name in ("configure_gpus", *trials):
            trial = (small_model(), numbers().batch(4)) if name in trials else ()
            with pytest.raises(ValueError, match=r'`verbose` must be "auto", 0, 1 or 2\. '):
                getattr(keras_gpukit, name)(*trial, verbose=verbose)

    def test_a_cache_on_disk_that_cannot_be_left_out_is_refused(self, tmp_path):
        dataset = numbers().cache(str(tmp_path / "file")).window(4)
        with pytest.raises(ValueError, match="cache on disk"):
            tune_input(dataset, **QUIETLY)
        assert list(tmp_path.iterdir()) == []


class TestGain:
    def test_a_gain_within_the_noise_is_not_clear(self):
        noisy = iter([1.0, 1.2, 0.8, 1.1, 0.9] * 4)
        found = rounds_module.compare(lambda: 1.0, lambda: next(noisy), threshold=1.05, seconds=60)
        assert found.low < 1 < found.high
        assert len(found.before) == rounds_module.MOST or found.high < 1.05

    def test_a_clear_gain_ends_early(self):
        exact = iter([2.0, 2.01, 1.99, 2.0])
        found = rounds_module.compare(lambda: 1.0, lambda: next(exact), threshold=1.05, seconds=60)
        assert len(found.after) == rounds_module.LEAST
        assert found.low > 1.05
        assert found.gain == pytest.approx(2.0, rel=0.01)
