"""What a note on an out-of-memory error advises, by the memory that this process can take."""

import pytest

from keras_gpukit.memory import out_of_memory
from keras_gpukit.memory.out_of_memory import Call, explain
from keras_gpukit.records import GPUHolder, GPUInfo
from keras_gpukit.reports.memory import note

pytestmark = pytest.mark.tensorflow
GIB = 2**30
END_OTHERS, HIGHER_LIMIT = "end the other processes", "a higher limit"


@pytest.fixture(scope="module")
def model():
    import keras

    model = keras.Sequential([keras.Input((1024,)), keras.layers.Dense(1024), keras.layers.ReLU()])
    model.compile("sgd", "mse", jit_compile=False)
    model.optimizer.build(model.trainable_variables)
    return model


@pytest.fixture
def explained(model, monkeypatch):
    """Explains an error on a GPU of 80 GiB: 16 million examples, which need more."""
    import tensorflow as tf

    def explained(limit_gib, held_gib=0, *, logical_gib=()):
        holders = (GPUHolder(7, held_gib * GIB, "python"),) if held_gib else ()
        monkeypatch.setattr(out_of_memory, "other_holders", lambda gpu: holders)
        limits = {f"GPU:{n}": gib * GIB for n, gib in enumerate((limit_gib, *logical_gib))}
        gpu = GPUInfo(0, memory_bytes=80 * GIB, logical=tuple(range(len(limits))))
        one = tf.TensorSpec((None, 1024), tf.float32)
        call = Call(model, (one, one), 2**24, 0, (gpu,), {}, {}, limits)
        text = "OOM when allocating tensor with shape[16777216,1024] and type float on device:GPU:0"
        return explain(RuntimeError(text), call)

    return explained


def suggested(record):
    return next((each.batch_size for each in record.options if each.kind == "batch size"), None)


def test_memory_that_a_limit_left_to_others_anyway_is_not_taken_off_the_limit(explained):
    alone, crowded = explained(6), explained(6, 23)
    assert crowded.options_unknown_because is None
    assert suggested(crowded) == suggested(alone) > 1000
    assert END_OTHERS not in note(crowded)
    assert "python (7) 23 GiB" in note(crowded)
    assert f"{HIGHER_LIMIT}, by configure_gpus(memory=...): other processes leave 57 GiB" in note(
        crowded
    )


def test_memory_that_others_hold_of_what_this_process_may_take_is_taken_off(explained):
    alone, crowded = explained(80), explained(80, 60)
    assert suggested(crowded) < suggested(alone) / 3
    assert END_OTHERS in note(crowded)
    assert HIGHER_LIMIT not in note(alone) + note(crowded)
    # Other logical GPUs leave less to raise a limit by.
    assert HIGHER_LIMIT not in note(explained(40, logical_gib=(40,)))
    assert HIGHER_LIMIT in note(explained(30, logical_gib=(40,)))
    assert explained(40, 10, logical_gib=(40,)).room_bytes == 30 * GIB
