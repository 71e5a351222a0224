"""Where an exception came from: the input or the step, the call, and the line of user code."""

import pytest

from keras_gpukit.monitoring.call_errors import (
    CallErrors,
    call_within,
    line_within_step,
    role_within_step,
)

KERAS = "/venv/site-packages/keras/src/backend/tensorflow/trainer.py"
HEAD = 'File "/home/me/train.py", line 60, in <module>\n'
CALL = f'File "{KERAS}", line 423, in fit\n'
EVALUATE = f'File "{KERAS}", line 510, in evaluate\nFile "{KERAS}", line 96, in test_step\n'
LOSS = 'File "/venv/site-packages/keras/src/losses/loss.py", line 67, in __call__\n'
OWN = 'File "/home/me/train.py", line 35, in batch_all\n'
OUT = "OOM when allocating tensor with shape[3600,3600,3600] and type bool\n"


def test_the_line_within_a_step_is_not_the_one_that_calls_fit():
    error = RuntimeError(HEAD + CALL + EVALUATE + LOSS + OWN + OUT)
    assert line_within_step(error) == ("/home/me/train.py", 35, "batch_all")
    assert (call_within(error), role_within_step(error)) == ("evaluate", "loss")
    metric = LOSS.replace("losses/loss.py", "metrics/reduction_metrics.py")
    assert role_within_step(RuntimeError(HEAD + CALL + EVALUATE + metric + OWN)) == "metric"
    layer = LOSS.replace("losses/loss.py", "layers/core/dense.py")
    by_a_layer = RuntimeError(HEAD + CALL + layer + OUT)
    assert role_within_step(by_a_layer) is line_within_step(by_a_layer) is None
    assert call_within(by_a_layer) == "fit"
    assert line_within_step(RuntimeError(OUT)) is call_within(RuntimeError(OUT)) is None
    # A `train_step` is named by the line that calls into Keras.
    own = 'File "/home/me/train.py", line 20, in train_step\n'
    inner = f'File "{KERAS}", line 387, in compute_loss\n'
    error = RuntimeError(HEAD + CALL + own + inner + LOSS + OUT)
    assert line_within_step(error) == ("/home/me/train.py", 20, "train_step")


@pytest.mark.parametrize(
    ("report", "epoch", "message", "where"),
    [
        ("of_step", 2, "a [[{{node PyFunc}}]] [[IteratorGetNext]]", "the input of step 8"),
        ("of_step", None, "a", "step 8"),
        ("of_validation", 2, "[[IteratorGetNext]]", "the input of validation, after step 7"),
        ("of_callback", 2, "a", "a callback, after step 7"),
    ],
)
def test_an_exception_of_the_input_is_told_from_one_of_the_step(report, epoch, message, where):
    errors = CallErrors(lambda: 7, lambda: epoch)
    getattr(errors, report)(ValueError(message))
    assert errors.last == f"ValueError in {where}" + ("" if epoch is None else ", in epoch 2")
    assert errors.kind == ("input" if "input" in where else "error")
    assert errors.source == report.removeprefix("of_")


def test_a_signal_is_named_with_what_it_interrupted():
    parts = {"validation": "in a validation", "first step": "in the first step"}
    for part, where in {**parts, "steps": "after step 1,250"}.items():
        errors = CallErrors(lambda: 1250)
        errors.ended_by("SIGTERM", part)
        assert (errors.last, errors.kind) == (f"SIGTERM {where}", "signal")


def test_a_call_that_failed_at_once_names_no_step_of_those_before():
    # Steps are counted by the optimizer, which may have trained another model.
    errors = CallErrors(lambda: 264, lambda: 1, first_step=264)
    errors.of_step(ValueError(f"Unknown variable: {'x' * 90}. Make a new optimizer instead."))
    assert errors.last == "ValueError in its first step, in epoch 1"
    assert errors.message.endswith("Make a new optimizer instead.")
    # A callback is named with the key that its logs lack.
    errors = CallErrors(lambda: 100, lambda: 1)
    with pytest.raises(KeyError) as raised:
        ModelCheckpoint().on_epoch_end(0, {"accuracy": 0.5, "val_accuracy": 0.4})
    errors.of_callback(raised.value)
    assert errors.last == "KeyError in ModelCheckpoint, after step 100, in epoch 1"
    assert errors.message == "no 'val_acc' in the logs, which have accuracy, val_accuracy"


class ModelCheckpoint:
    def set_model(self, model): ...

    def on_epoch_end(self, epoch, logs):
        try:
            return "{val_acc}".format(**logs)
        except KeyError as error:
            raise KeyError(f'Failed to format: "{{val_acc}}". Reason: {error}') from error
