"""What the repairs change, and that an unknown Keras is left alone."""

from types import SimpleNamespace

import pytest

from keras_gpukit.distributed import repairs
from keras_gpukit.distributed.repairs.several_workers import lost_tasks
from keras_gpukit.errors import GPUKitWarning

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize("trainer", [None, SimpleNamespace(_make_function=print)])
def test_an_unknown_keras_is_left_alone_with_a_warning(monkeypatch, trainer):
    module = SimpleNamespace(TensorFlowTrainer=trainer)
    monkeypatch.setattr(repairs, "_done", set())
    monkeypatch.setattr(repairs, "trainer_module", lambda: module)
    with pytest.warns(GPUKitWarning, match="several steps per execution"):
        repairs.repair(repairs.MIRRORED[0])


def test_a_lost_worker_is_told_from_other_failures():
    heartbeats = (
        "Collective ops is aborted by: Error reported from /job:worker/task:1: The following tasks "
        "are unhealthy (stopped sending heartbeats):\n/job:worker/replica:0/task:1\n"
    )
    assert lost_tasks(heartbeats, ("worker", 0)) == [("worker", 1)]
    socket = (
        "Collective ops is aborted by: Socket closed\nAdditional GRPC error information from "
        "remote target /job:worker/replica:0/task:2 while calling /tensorflow.WorkerService/RecvBuf"
    )
    assert lost_tasks(socket, ("worker", 0)) == [("worker", 2)]
    mismatch = (
        "Collective ops is aborted by: Shape mismatch in the collective instance 3. remote target "
        "/job:worker/replica:0/task:1 {grpc_status:13}"
    )
    assert lost_tasks(mismatch, ("worker", 0)) == []


@pytest.mark.slow
def test_mirrored_replicas_take_several_steps_and_each_batch_of_a_pydatasets_workers_once(
    run_script,
):
    run_script("""
import tensorflow as tf
(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
import keras, numpy as np
from keras_gpukit.distributed import repairs
strategy = tf.distribute.MirroredStrategy(["/CPU:0", "/CPU:1"])
repairs.repair(*repairs.MIRRORED)

def loss(steps):  # with collectives
    with strategy.scope():
        dense = keras.layers.Dense(1, kernel_initializer="ones")
        model = keras.Sequential([keras.Input((3,)), dense])
        model.compile("sgd", "mse", steps_per_execution=steps, jit_compile=False)
    x = np.arange(48, dtype="float32").reshape(16, 3) / 48
    return model.fit(x, x[:, :1], batch_size=4, shuffle=False, verbose=0).history["loss"]
np.testing.assert_allclose(loss(3), loss(1), rtol=1e-6)

class Numbers(keras.utils.PyDataset):
    def __len__(self):
        return 4
    def __getitem__(self, index):
        return np.zeros((4, 1), "float32"), np.full((4, 1), 10.0**index, "float32")
with strategy.scope():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.0), lambda y_true, y_pred: y_true + 0.0 * y_pred)
loss = model.fit(Numbers(workers=2), epochs=3, verbose=0).history["loss"]
np.testing.assert_allclose(loss, [1111 / 4] * 3, rtol=1e-5)
""")
