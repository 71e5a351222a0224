"""FLOPs of Keras' application models against published figures, and what counting a step costs.

    python benchmarks/model_flops.py --json benchmarks/results/model_flops.json

Published figures are multiply-adds: half of the FLOPs. Each model runs forward on one image. The
cost is that of a whole training step, with a batch whose size is open in the trace, and known.
"""

from __future__ import annotations

import time
from typing import Any

import keras
import tensorflow as tf
from harness import argument_parser, print_table
from results_file import save

from keras_gpukit.flops.counting import count_step

TORCHVISION = "https://docs.pytorch.org/vision/stable/models.html (GFLOPS)"
# Multiply-adds, where they are published. torchvision's ResNet50 strides elsewhere than Keras'.
PUBLISHED = {
    "VGG16": (15.47e9, TORCHVISION),
    "InceptionV3": (5.71e9, TORCHVISION),
    "DenseNet121": (2.83e9, TORCHVISION),
    "ResNet50": (3.8e9, "https://arxiv.org/abs/1512.03385, table 1"),
    "MobileNetV2": (300e6, "https://arxiv.org/abs/1801.04381, table 4"),
    "EfficientNetB0": (0.39e9, "https://arxiv.org/abs/1905.11946, table 2"),
}
WITHIN = 0.02
COSTS = ("VGG16", "ResNet50")
BATCH = 8


def forward(model: keras.Model) -> int | None:
    """Returns the FLOPs of one image."""
    image = tf.TensorSpec((None, *model.input_shape[1:]))
    step = tf.function(lambda images: model(images, training=False))
    return count_step(step.get_concrete_function(image).graph, 1).total


def cost(model: keras.Model, batch: int | None) -> tuple[int, float]:
    """Returns the operations of a training step and the processor time of counting them."""
    model.compile("sgd", "mse", jit_compile=False)
    model.optimizer.build(model.trainable_variables)
    batches = tf.TensorSpec((batch, *model.input_shape[1:])), tf.TensorSpec((batch, 1000))
    step = tf.function(model.train_step, autograph=False)
    graph = step.get_concrete_function(batches).graph
    began_s = time.process_time()
    count_step(graph, BATCH)
    return len(graph.get_operations()), time.process_time() - began_s


def main() -> None:
    arguments = argument_parser(__doc__).parse_args()
    models: list[dict[str, Any]] = []
    for name, (published, source) in PUBLISHED.items():
        counted = forward(getattr(keras.applications, name)(weights=None))
        off = counted / (2 * published) - 1
        row = {"model": name, "flops": counted, "published_multiply_adds": published}
        models.append({**row, "off": off, "within": abs(off) <= WITHIN, "source": source})
    costs = []
    for name in COSTS:
        for batch in (None, BATCH):
            model = getattr(keras.applications, name)(weights=None)
            operations, spent_s = cost(model, batch)
            costs.append({"model": name, "batch": batch, "operations": operations, "s": spent_s})
    print_table(
        "FLOPs of one image, forward",
        ("model", "GFLOPs", "published", "off"),
        [
            (
                row["model"],
                f"{row['flops'] / 1e9:.3f}",
                f"{2 * row['published_multiply_adds'] / 1e9:.3f}",
                f"{100 * row['off']:+.1f} %",
            )
            for row in models
        ],
    )
    print_table(
        "Counting a training step, once a run",
        ("model", "batch", "operations", "processor time"),
        [
            (row["model"], str(row["batch"]), str(row["operations"]), f"{row['s']:.2f} s")
            for row in costs
        ],
    )
    if arguments.json:
        save(arguments.json, __file__, within=WITHIN, models=models, costs=costs)


if __name__ == "__main__":
    main()
