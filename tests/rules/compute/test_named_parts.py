"""Names and lines of what takes a step's time: Python functions, layers, embeddings."""

from dataclasses import replace

import pytest
from helpers.summaries import breakdown, throughput

from keras_gpukit import records
from keras_gpukit.rules.compute.dominant_layer import DominantLayer
from keras_gpukit.rules.compute.host_work import PythonInStep
from keras_gpukit.rules.compute.slow_layers import DenseEmbeddingUpdate

OF_BATCH = records.PythonFunction("of_batch", "train.py:27", "metric", "mean_auc")


def layer(path, time_s, kind="matmul", kernels=10.0, **known):
    role = "optimizer" if path == "optimizer" else "layer"
    return records.LayerProfile(path, role, time_s, 0.0, {kind: time_s}, kernels, **known)


def run(*layers, python_s=0.0, called=()):
    """A run on a CPU with steps of 10 ms and batches of 128, of which a profile was read."""
    sums = records.OperationProfile("adam/Sum", "UnsortedSegmentSum", "reduction", 1.0, 2, 0.9)
    profile = records.ProfileRecord(
        steps=2,
        step_time_s=0.01,
        parts_s={"host compute": 0.01},
        layers=layers,
        python_s=python_s,
        operations=(sums,),
    )
    return records.RunSummary(
        records.Environment({}, jit_compile=False),
        throughput=throughput(0.01, 9000, examples_per_s=12_800.0),
        input=records.InputRecord("fit", breakdown=breakdown(compute_s=90.0)),
        operations=records.PlacementRecord(python=tuple(called)),
        profile=profile,
    )


@pytest.mark.parametrize(
    ("called", "title", "advice"),
    [
        (
            [OF_BATCH],
            "of_batch (train.py:27) runs Python within the step as the metric mean_auc: it takes ",
            "Compute it once per epoch",
        ),
        (
            [replace(OF_BATCH, role="step")],
            "of_batch (train.py:27) runs Python within the step: it takes 84 %",
            "Write it with TensorFlow operations",
        ),
        (
            [OF_BATCH, records.PythonFunction("own", "train.py:9", "loss")],
            "Python functions take, as of_batch (train.py:27), own (train.py:9), 84 %",
            "Write it with TensorFlow operations",
        ),
        ([], "Python functions take 84 % of each step", "Write it with TensorFlow operations"),
    ],
)
def test_python_in_the_step_is_named_by_function_line_and_caller(called, title, advice):
    found = PythonInStep().judge(run(python_s=0.0084, called=called))
    assert found.title.startswith(title)
    assert found.advice[0].startswith(advice)
    assert found.saving.upper_bound


def test_an_embedding_is_named_with_its_size_and_the_rows_that_a_batch_uses():
    items = layer("m/items", 0.001, class_name="Embedding", weight_shape=(400_000, 32), inputs=40)
    bias = layer("m/bias", 0.001, class_name="Embedding", weight_shape=(400_000, 1), inputs=40)
    summary = run(bias, items, layer("optimizer", 0.008))
    found = DenseEmbeddingUpdate().judge(summary)
    assert "(items, 400,000 × 32): 80 % of the step" in found.title
    assert "but it trains otherwise, so compare the losses: keras.optimizers.SGD" in found.advice[0]
    rows = next(each for each in found.evidence if each.key == "rows_of_a_batch")
    assert (rows.value, rows.of) == (pytest.approx(5120), "400,000")
    # A table with more rows than all batches can have used needs fewer.
    short = replace(summary, throughput=replace(summary.throughput, steps=70))
    found = DenseEmbeddingUpdate().judge(short)
    assert found.evidence[-1].value == pytest.approx(70 * 5120)
    assert found.advice[0].startswith("Fewer rows: number the ids that occur")


def others():
    return (layer(f"m/dense_{number}", 0.0005) for number in range(3))


@pytest.mark.parametrize(
    ("class_name", "severity", "advice"),
    [
        ("TimeDistributed", "warning", "per step calls its layer once for each time step"),
        ("TextVectorization", "warning", "Text is handled within each step"),
        ("LSTM", "info", "Look at per step first"),
        ("Own", "info", "Look at per step first"),
    ],
)
def test_a_layer_that_dominates_has_class_line_and_the_advice_of_its_class(
    class_name, severity, advice
):
    slow = layer("m/per_step", 0.008, "other", 50.0, class_name=class_name, place="train.py:9")
    found = DominantLayer().judge(run(slow, *others()))
    assert f"per step ({class_name}, train.py:9)" in found.title
    assert (found.severity, found.advice[0][: len(advice)]) == (severity, advice)
