"""`find_batch_size` on real models: with a planted limit of memory, and without one."""

import itertools
import json
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
from contextlib import suppress
from multiprocessing import forkserver
from pathlib import Path

import keras
import numpy as np
import psutil
import pytest
import tensorflow as tf
from helpers.processes import environment, wait_for
from helpers.training import arrays, mirrored_model, sensitive_model, small_model

import keras_gpukit as gpukit
from keras_gpukit.records import BatchSizeSearch, from_dict
from keras_gpukit.reports.searches import batch_size_view as render
from keras_gpukit.reports.terminal import as_text
from keras_gpukit.tuning.examples import examples_of
from keras_gpukit.tuning.isolated_trials import TrialJob
from keras_gpukit.tuning.sources import endless
from keras_gpukit.tuning.trainer import DoesNotFit, without_allocator_log

CASES = Path(__file__).parent / "cases"
CASE = CASES / "planted_limit.py"
X, Y = arrays(16)  # 256 examples
RATE_OF = "keras_gpukit.tuning.examples.rate_of"


def ended(*arguments, level: str) -> subprocess.CompletedProcess[str]:
    command, env = [sys.executable, *map(str, arguments)], environment(TF_CPP_MIN_LOG_LEVEL=level)
    options = {"capture_output": True, "text": True, "timeout": 300, "check": False}
    done = subprocess.run(command, env=env, **options)
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def planted(*arguments: str) -> dict:
    done = ended(CASE, *arguments, level="0")
    # What the allocator logs of each trial that does not fit.
    assert "bfc_allocator.cc" not in done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def search_of(found: dict) -> BatchSizeSearch:
    return from_dict(found["search"], BatchSizeSearch)


@pytest.mark.long
def test_a_planted_limit_is_found_the_largest_then_trains_and_the_report_says_what_failed():
    here = planted("here")
    search = search_of(here)
    assert search.limit_bytes == 48 * 2**20
    assert search.largest < search.largest_passed < search.smallest_failed < 4000
    # An example takes 8 KiB in each of the layer's tensors, of which a step holds a few.
    assert 300 < search.largest < 3000
    assert search.largest >= 0.94 * search.largest_passed
    # Each failure takes ten seconds in this process, so the time may end first.
    assert search.smallest_failed <= 1.3 * search.largest_passed
    assert search.fastest <= search.largest
    assert not search.isolated
    searched, untouched = here["losses"]
    assert searched == untouched
    text = " ".join(as_text(render(search)).split())
    assert f"Largest that fits: {search.largest:,}, tried, with a margin of 2.0 %" in text
    assert f"{search.smallest_failed:,} ran out of memory" in text
    assert f"no memory for a tensor of shape [{search.smallest_failed}, 2048]" in text
    assert "48 MiB" in text


@pytest.mark.long
def test_a_trial_does_without_the_memory_that_is_held_back_and_that_of_the_first_step():
    held_back = planted("held back")
    first, later = held_back["first only"]
    assert first == pytest.approx(later, rel=0.2)
    whole, with_less, with_too_little, again = held_back["peaks"]
    assert with_less == pytest.approx(whole, rel=0.2)  # what is held back is no part of it
    assert with_too_little is None
    assert again == pytest.approx(whole, rel=0.2)


@pytest.mark.long
def test_steps_compiled_by_xla_are_tried_in_processes_of_their_own():
    search = search_of(planted("isolated"))
    assert search.isolated
    assert search.execution == "xla"
    # Where the processes are slow, the time may end before one failed.
    if search.ending == "nothing left to try":
        assert search.largest < search.largest_passed < search.smallest_failed
        assert search.smallest_failed <= 1.03 * search.largest_passed
    assert len(planted("trained", str(search.largest))["losses"]) == 3


def test_without_a_limit_the_largest_is_unknown_and_the_fastest_is_found():
    search = gpukit.find_batch_size(small_model(), (X, Y), seconds=6, verbose=False)
    assert search.largest is search.limit_bytes is None
    assert "no limit" in search.unlimited_because
    assert (search.most, search.most_because) == (256, "the data set has 256 examples")
    assert search.fastest in [each.batch_size for each in search.trials]
    assert all(each.fits and each.peak_bytes is None for each in search.trials)


def test_training_is_the_same_afterwards():
    def losses(searches):
        model = sensitive_model()
        if searches:
            gpukit.find_batch_size(model, (X, Y), seconds=2, max_batch_size=4, verbose=False)
        return model.fit(X, Y, batch_size=16, epochs=2, verbose=0).history["loss"]

    assert losses(True) == losses(False)


class Interrupting(keras.Sequential):
    """Gets a Ctrl-C in its second fit, after a step that changed the model."""

    fits = 0  # itself part of what is restored

    def fit(self, *args, callbacks, **options):
        self.fits += 1
        if self.fits == 2:
            interrupt = lambda batch, logs: signal.raise_signal(signal.SIGINT)  # noqa: E731
            callbacks = [*callbacks, keras.callbacks.LambdaCallback(on_train_batch_end=interrupt)]
        return super().fit(*args, callbacks=callbacks, **options)


# In `make test`, a search in a process of its own is ended below.
@pytest.mark.long
def test_ctrl_c_in_a_trial_leaves_the_model_as_it_was(capfd):
    def losses(interrupted):
        model = Interrupting([keras.Input((8,)), *sensitive_model().layers])
        model.compile("adam", "mse", jit_compile=False)
        model.train_on_batch(X[:16], Y[:16])
        variables = [*model.variables, *model.optimizer.variables]
        before = [each.numpy() for each in variables]
        if interrupted:
            with pytest.raises(KeyboardInterrupt):
                gpukit.find_batch_size(model, (X, Y), seconds=2, max_batch_size=4, verbose=False)
        assert model.fits == 0
        for value, variable in zip(before, variables, strict=True):
            np.testing.assert_array_equal(value, variable.numpy())
        return keras.Sequential.fit(model, X, Y, epochs=2, verbose=0).history["loss"]

    assert losses(True) == losses(False)
    os.write(2, b"shown again\n")
    assert "shown again" in capfd.readouterr().err


def test_of_a_trial_only_what_the_allocator_logs_is_dropped(capfd):
    dump = b"2026-11-24 10:15:00.000001: I tsl/framework/bfc_allocator.cc:1039] BFCAllocator dump\n"
    with without_allocator_log():
        os.write(2, dump + b"a warning\n")
    assert capfd.readouterr().err == "a warning\n"

    def trial(log, error):
        with without_allocator_log():
            os.write(2, log)
            raise error

    for log, error, shown in (
        (dump + b"Stats:\nLimit: 268435456\n", DoesNotFit("ran out"), ""),
        (b"why it broke\n", ValueError("broken"), "why it broke\n"),
    ):
        with pytest.raises(type(error)):
            trial(log, error)
        assert capfd.readouterr().err == shown


class Examples(keras.utils.PyDataset):
    """Each batch is one example."""

    def __len__(self):
        return len(X)

    def __getitem__(self, index):
        return X[index : index + 1], Y[index : index + 1]


def batches_of(count):
    return tf.data.Dataset.from_tensor_slices((X, Y)).batch(count)


@pytest.mark.parametrize(
    ("data", "batch_s", "input_rate"),
    [
        (batches_of(1), 50 + 1e-4, 1 / 50),
        (Examples(), 50 + 1e-4, 1 / 50),
        (batches_of(2), 2.5e-4, 2 / 1.5e-4),
        (batches_of(2), 1.5e-4, None),  # batches that cost little are no limit for larger ones
    ],
)
def test_an_input_that_is_slower_is_the_limit(data, batch_s, input_rate, monkeypatch):
    takes_s = itertools.chain([1e-4], itertools.repeat(batch_s))  # first a batch that is ready
    monkeypatch.setattr(RATE_OF, lambda *_: 1 / next(takes_s))
    # It was built by a batch of another size, which does not matter.
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=False)
    model.train_on_batch(X[:16], Y[:16])
    search = gpukit.find_batch_size(model, data, seconds=3, max_batch_size=8, verbose=False)
    assert (search.limited_by_input is None) == (search.input_rate is None) == (input_rate is None)
    if input_rate is not None:
        assert search.input_rate.median == pytest.approx(input_rate)
    if batch_s > 1:
        assert search.limited_by_input
        # A single example a step is faster than that, on whatever machine.
        assert search.fastest == 1


@keras.saving.register_keras_serializable()
class CompilesItself(keras.Sequential):
    """Has its own way of compiling when it is loaded."""

    def compile_from_config(self, config):
        self.compile("sgd", "mse", jit_compile=False)


def test_a_saved_model_starts_as_in_the_program_that_made_it():
    def loaded(model):
        return pickle.loads(pickle.dumps(TrialJob.of(model, examples_of((X, Y))))).model()

    model = small_model()
    model.fit(X[:16], Y[:16], verbose=0)
    started = loaded(model)
    # What it takes for the slots comes after what the input takes, as in the first fit.
    assert not started.optimizer.built
    assert started.optimizer.get_config() == model.optimizer.get_config()
    started.fit(X[:16], Y[:16], verbose=0)
    assert started.optimizer.built

    own = CompilesItself([keras.Input((8,)), keras.layers.Dense(1)])
    own.compile("adam", "mae")
    assert isinstance(loaded(own).optimizer, keras.optimizers.SGD)


@pytest.mark.long
def test_in_a_process_of_its_own_a_function_makes_the_model():
    search = gpukit.find_batch_size(
        small_model, (X, Y), isolated=True, seconds=3, max_batch_size=4, verbose=False
    )
    assert search.isolated
    assert search.fastest in (1, 2, 4)
    assert multiprocessing.active_children() == []
    if sys.platform == "linux":  # the server that forked them has ended too
        assert forkserver._forkserver._forkserver_pid is None


@pytest.mark.long  # `tests/realtime` interrupts a trial
@pytest.mark.parametrize(
    ("to_the_group", "number"),
    [(True, signal.SIGTERM), (False, signal.SIGKILL), (False, signal.SIGINT)],
)
def test_a_search_that_is_ended_leaves_neither_files_nor_processes(tmp_path, to_the_group, number):
    options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    options["env"] = environment(TMPDIR=str(tmp_path), TF_CPP_MIN_LOG_LEVEL="3")
    command = [sys.executable, str(CASE), "isolated"]
    process = subprocess.Popen(command, start_new_session=True, **options)

    def trials() -> list[psutil.Process]:
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(process.pid).children(recursive=True)
        return []

    wait_for(lambda: len(trials()) >= 2, 120)
    of_trials = trials()
    (os.killpg if to_the_group else os.kill)(process.pid, number)
    process.wait(60)
    _, alive = psutil.wait_procs(of_trials, timeout=60)
    assert of_trials
    assert not alive
    wait_for(lambda: not list(tmp_path.glob("keras_gpukit-*")))


@pytest.mark.slow
def test_the_command_finds_for_the_first_fit_of_a_script(tmp_path):
    written = tmp_path / "written"
    command = ("-m", "keras_gpukit", "batch-size", "--seconds", "3", CASES / "tiny.py", written)
    done = ended(*command, level="3")
    assert "Fastest: " in done.stdout
    assert "Tried up to" in done.stdout
    assert not written.exists()
    assert "Warning" not in done.stderr


def fails() -> keras.Model:
    raise OSError("no such file of weights")


@pytest.mark.long
@pytest.mark.parametrize(
    ("build", "reason"),
    [(fails, "no such file of weights"), (mirrored_model, "Received: a model on 2 replicas")],
)
def test_a_trial_that_fails_for_another_reason_says_which(build, reason):
    with pytest.raises(gpukit.errors.TrialError, match=reason):
        gpukit.find_batch_size(build, (X, Y), isolated=True, seconds=3, verbose=False)


def ragged() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(tf.ragged.constant([[1], [2, 3]])).batch(2)


@pytest.mark.parametrize(
    ("dataset", "error", "message"),
    [
        (7, TypeError, "Received: dataset=7"),
        (iter([]), TypeError, "used? it up|use it up"),
        ((X, Y[:3]), ValueError, r"same number of rows.* \[3, 256\] rows"),
        (tf.data.Dataset.range(8), ValueError, "must give batches"),
        (ragged(), ValueError, "dense tensors"),
        ((tf.sparse.eye(4), Y[:4]), TypeError, "dense arrays.*Received: SparseTensor in it"),
        ((tf.ragged.constant([[1], [2, 3]]), Y[:2]), TypeError, "Received: RaggedTensor in it"),
        (
            tf.data.Dataset.from_tensor_slices((np.zeros((4, 8)), np.zeros((4, 1)))),
            *(ValueError, r"must give batches.*Received: an element with arrays of \[1, 8\] rows"),
        ),
    ],
)
def test_wrong_data_raises(dataset, error, message):
    with pytest.raises(error, match=message):
        gpukit.find_batch_size(small_model(), dataset)


def test_wrong_models_and_arguments_raise():
    inputs = keras.Input((8,), batch_size=16)
    fixed = keras.Model(inputs, keras.layers.Dense(1)(inputs))
    fixed.compile("sgd", "mse")
    uncompiled = keras.Sequential([keras.layers.Dense(1)])
    by_lambda = {"isolated": True, "seconds": 0.1}
    for model, options, error, message in (
        (fixed, {}, ValueError, r"batches of any size.* for batches of 16"),
        (uncompiled, {}, ValueError, "must be compiled"),
        (small_model(), {"isolated": "yes"}, TypeError, "Received: isolated='yes'"),
        (small_model(), {"max_batch_size": 0}, ValueError, "Received: max_batch_size=0"),
        (small_model, {}, TypeError, r"must be a compiled keras\.Model"),
        (lambda: small_model(), by_lambda, ValueError, "that another process can import.*lambda"),
    ):
        with pytest.raises(error, match=message):
            gpukit.find_batch_size(model, (X, Y), **options)


@pytest.mark.parametrize(("rows", "expected"), [(20, "20"), (100, "about 104")])
def test_a_smaller_last_batch_counts_as_what_it_is(rows, expected):
    data = tf.data.Dataset.from_tensor_slices((X[:rows], Y[:rows])).batch(8)
    search = gpukit.find_batch_size(small_model(), data, seconds=0.1, verbose=False)
    assert search.most_because == f"the data set has {expected} examples"


def test_arrays_are_fed_in_keras_own_type_and_batches_in_theirs():
    wide = X.astype("float64")
    for array in (wide, X.astype("float16"), tf.constant(wide)):
        assert examples_of((array, Y)).parts[0].dtype == "float32"
        assert next(iter(endless((array, Y), 4)))[0].dtype == "float32"
    batches = tf.data.Dataset.from_tensor_slices((wide, Y)).batch(8)
    assert examples_of(batches).parts[0].dtype == "float64"
    numbers = (np.arange(len(X)), Y)
    assert examples_of(numbers).parts[0].dtype == "int64"


def test_sequences_of_different_lengths_are_tried_by_the_longest():
    lengths = tf.data.Dataset.from_tensor_slices([3, 9, 5])
    padded = lengths.map(lambda n: (tf.zeros((n, 8)), tf.zeros((1,)))).padded_batch(1)
    examples = examples_of(padded)
    assert examples.parts[0].shape == (1, 9, 8)
    assert examples.batch_size == 1
    assert examples.total == 3
    (batch,) = list(examples.batches(5, 5))
    assert batch[0].shape == (5, 9, 8)
    np.testing.assert_array_equal(next(iter(examples.one_batch(3)))[1], np.zeros((3, 1)))
