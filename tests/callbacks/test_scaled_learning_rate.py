"""`ScaledLearningRate`: the rate at each update, also after a restart and under a strategy."""

import contextlib

import keras
import numpy as np
import pytest
from helpers.training import small_model

from keras_gpukit import ScaledLearningRate

X, Y = np.ones((16, 8), "float32"), np.ones((16, 1), "float32")


class Rates(keras.callbacks.Callback):
    """The rate that each batch was trained with; stops by an exception if asked."""

    def __init__(self, fail_at=None):
        super().__init__()
        self.seen, self.fail_at = [], fail_at

    def on_train_batch_end(self, batch, logs=None):
        self.seen.append(float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate)))
        if len(self.seen) == self.fail_at:
            raise KeyboardInterrupt


def model(optimizer=None, **options):
    made = small_model(**options)
    made.compile(optimizer or keras.optimizers.SGD(0.001), "mse", jit_compile=False, **options)
    return made


def rates(trained, callback, epochs=2, **options):
    seen = Rates(options.pop("fail_at", None))
    extra = options.pop("callbacks", [])
    with contextlib.suppress(KeyboardInterrupt):
        trained.fit(
            X, Y, batch_size=4, epochs=epochs, verbose=0, callbacks=[callback, *extra, seen]
        )
    return pytest.approx(seen.seen, rel=1e-5)


SCHEDULE = keras.optimizers.schedules.PiecewiseConstantDecay([5], [0.1, 0.01])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # It rises by equal steps to the scaled one.
        ({"factor": 5, "warmup_epochs": 1}, [0.1, 0.2, 0.3, 0.4, 0.5, 0.5, 0.5, 0.5]),
        # Without a warm-up the whole factor is there at once; one replica leaves the base rate.
        ({"factor": 2, "warmup_epochs": 0}, [0.2] * 8),
        ({"warmup_epochs": 1}, [0.1] * 8),
        # A schedule is scaled at every update.
        (
            {"base": SCHEDULE, "factor": 3, "warmup_updates": 2},
            [0.1, 0.2, 0.3, 0.3, 0.3, 0.3, 0.03, 0.03],
        ),
    ],
)
def test_the_rate_of_each_update(options, expected):
    callback = ScaledLearningRate(**{"base": 0.1, **options})
    assert rates(model(), callback) == expected
    if "factor" in options and options.get("warmup_epochs"):
        assert callback.warm_up.updates == 4


def test_accumulated_batches_several_steps_per_execution_and_loss_scaling_are_seen():
    warmed_up = ScaledLearningRate(0.1, factor=3, warmup_epochs=1)
    accumulating = keras.optimizers.SGD(0.001, gradient_accumulation_steps=2)
    found = rates(model(accumulating), warmed_up)
    assert found == [0.1, 0.1, 0.2, 0.2, 0.3, 0.3, 0.3, 0.3]
    callback = ScaledLearningRate(0.1, factor=5, warmup_updates=4)
    assert rates(model(steps_per_execution=2), callback) == [0.1, 0.3, 0.5, 0.5]
    of_the_loss = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.001))
    callback = ScaledLearningRate(0.1, factor=2, warmup_updates=2)
    assert rates(model(of_the_loss), callback, 1) == [0.1, 0.15, 0.2, 0.2]


@pytest.mark.parametrize("first", [True, False], ids=["before", "after"])
def test_a_resumed_training_goes_on_where_it_was(tmp_path, first):
    def train(fail_at):
        scaled = ScaledLearningRate(0.1, factor=9, warmup_epochs=2)
        backup = keras.callbacks.BackupAndRestore(tmp_path, delete_checkpoint=False)
        one, two = (scaled, backup) if first else (backup, scaled)
        return rates(model(), one, 3, callbacks=[two], fail_at=fail_at)

    expected = [0.1 * factor for factor in (1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9)]
    assert train(fail_at=6) == expected[:6]
    assert train(fail_at=None) == expected[4:]


def test_after_the_warm_up_other_callbacks_rule():
    trained = model()
    rates(trained, ScaledLearningRate(0.1, factor=2, warmup_updates=2), 2)
    trained.optimizer.learning_rate = 0.05  # as ReduceLROnPlateau does
    assert rates(trained, ScaledLearningRate(0.1, factor=2, warmup_updates=2), 1) == [0.05] * 4


def test_a_schedule_in_the_optimizer_and_an_epoch_of_unknown_length_are_refused():
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)
    scheduled, callbacks = model(keras.optimizers.SGD(schedule)), [ScaledLearningRate(0.1)]
    with pytest.raises(ValueError, match=r"Give the schedule to ScaledLearningRate.*Received: "):
        scheduled.fit(X, Y, verbose=0, callbacks=callbacks)
    with pytest.raises(ValueError, match=r"give warmup_updates.*Received: "):
        model().fit((each for each in [(X, Y)]), verbose=0, callbacks=callbacks)


def test_wrong_arguments_raise_at_once():
    wrong = {"base": 0.0}, {"factor": 0}, {"warmup_epochs": -1}, {"warmup_updates": -1}
    for options in wrong:
        with pytest.raises(ValueError, match="Received: "):
            ScaledLearningRate(**{"base": 0.1, **options})
    for options in ({"base": "0.1"}, {"factor": True}, {"warmup_updates": 1.5}):
        with pytest.raises(TypeError, match="Received: "):
            ScaledLearningRate(**{"base": 0.1, **options})
