"""Logs a fit, then a recorded run, to MLflow, Weights & Biases and OpenTelemetry.

    python logged_elsewhere.py FOLDER

The fit finds no run of the user, the recorded run does. Writes `results.json` to the folder.
"""

import json
import sys
from pathlib import Path

import mlflow
import tensorflow as tf
import wandb
from helpers.processes import wait_for
from helpers.recorded_runs import run_lines
from helpers.training import BATCH, FEATURES, sleep_in_tensorflow, small_model
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from wandb.proto.wandb_internal_pb2 import Record

import keras_gpukit as gpukit
from keras_gpukit.saved_runs.exporting import SERVICES, start_logging

folder = Path(sys.argv[1])
reader, spans = InMemoryMetricReader(), InMemorySpanExporter()
metrics.set_meter_provider(MeterProvider([reader]))
trace.set_tracer_provider(TracerProvider())
trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(spans))


def collected():
    """Latest value of each metric, by its name and the GPU it is about."""
    data = reader.get_metrics_data()
    return {
        " ".join([metric.name, point.attributes.get("hw.id", "")]).strip(): point.value
        for resource in (data.resource_metrics if data else ())
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    }


def wandb_records(path):
    """Records of an offline run's file, which has the format of LevelDB's logs."""
    data, at, parts = path.read_bytes(), 7, b""
    while at < len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        parts += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # the whole record, or its last part
            yield Record.FromString(parts)
            parts = b""


def wandb_run(path):
    records = list(wandb_records(path))
    rows = [record.history.item for record in records if record.HasField("history")]
    summary = [item for record in records for item in record.summary.update]
    return {
        "rows": [
            {item.key or item.nested_key[0]: json.loads(item.value_json) for item in row}
            for row in rows
        ],
        "summary": {
            item.key or item.nested_key[0]: json.loads(item.value_json) for item in summary
        },
        "artifacts": [
            [entry.path for entry in record.request.log_artifact.artifact.manifest.contents]
            or [entry.path for entry in record.artifact.manifest.contents]
            for record in records
            if record.HasField("artifact")
        ],
        "exit_code": [record.exit.exit_code for record in records if record.HasField("exit")],
    }


def mlflow_run(run):
    client = mlflow.MlflowClient()
    folders = [each.path for each in client.list_artifacts(run.info.run_id, "gpukit")]
    files = [each.path for path in folders for each in client.list_artifacts(run.info.run_id, path)]
    history = client.get_metric_history(run.info.run_id, "gpukit/input/stall_percent")
    return {
        "status": run.info.status,
        "metrics": run.data.metrics,
        "tags": run.data.tags,
        "stall": [(point.step, point.value) for point in history],
        "files": files,
        "verdict": client.download_artifacts(run.info.run_id, files[-1]),
    }


mlflow.search_experiments()  # makes the database, which takes long

rows = tf.ones((BATCH, FEATURES)), tf.ones((BATCH, 1))
data = tf.data.Dataset.from_tensors(rows).repeat(40).apply(sleep_in_tensorflow(0.02))
monitor = gpukit.Monitor(None, verbose=0, log_to=list(SERVICES))
small_model().fit(data, epochs=2, verbose=0, callbacks=[monitor])
after_the_fit = collected()

tracer = trace.get_tracer("user")
with mlflow.start_run(), wandb.init() as own, tracer.start_as_current_span("training"):
    own.log({"loss": 1.0}, step=5, commit=True)
    threads = [start_logging(name) for name in SERVICES]
    *lines, last = run_lines()
    for thread in threads:
        for time_s, step, kind, record in lines:
            thread.write_record(kind, record, step, time_s)
    during = wait_for(lambda: ("keras_gpukit.input.stall" in (now := collected())) and now)
    for thread in threads:
        thread.write_record(last[2], last[3], last[1], last[0])
        thread.close()
    own.log({"loss": 0.5}, step=6)
    still_open = mlflow.active_run() is not None and wandb.run is own
    own.log({"loss": 0.25}, step=7)

result = {
    "mlflow": [mlflow_run(run) for run in mlflow.MlflowClient().search_runs(["0"])],
    "wandb": [wandb_run(path) for path in sorted(folder.glob("wandb/offline-run-*/*.wandb"))],
    "spans": [json.loads(span.to_json()) for span in spans.get_finished_spans()],
    "metrics": {"during": during, "after": [after_the_fit, collected()]},
    "fit": {
        "stall_percent": 100 * monitor.summary.input_stall_fraction,
        "codes": [each.code for each in monitor.summary.findings],
    },
    "still_open": still_open,
}
(folder / "results.json").write_text(json.dumps(result), encoding="utf-8")
