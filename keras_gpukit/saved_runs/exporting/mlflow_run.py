"""Logs a run to MLflow: metrics, tags, and the verdict as artifacts."""

from __future__ import annotations

import os
import sys

from keras_gpukit.records.run import RunSummary
from keras_gpukit.saved_runs.exporting.exporter import (
    Exporter,
    figures_of,
    figures_of_run,
    files_of,
    texts_of,
)


class MLflowRun(Exporter):
    """Logs to the run that the user has started; otherwise starts one of its own, and ends it."""

    def __init__(self, run_id: str | None) -> None:
        import mlflow

        super().__init__()
        self._mlflow = mlflow
        self._own = run_id is None
        # The active run belongs to the thread: the user may start another one in the meantime.
        self._run_id = run_id or mlflow.start_run().info.run_id
        self._client = mlflow.MlflowClient()
        self._status = "FAILED"

    @staticmethod
    def active() -> str | None:
        """Returns the user's run: started on this thread, or named by the environment."""
        mlflow = sys.modules.get("mlflow")
        run = mlflow.active_run() if mlflow else None
        return run.info.run_id if run else os.environ.get("MLFLOW_RUN_ID")

    def log_point(self, summary: RunSummary, time_s: float, step: int) -> None:
        """Logs a point of each metric."""
        self._log(figures_of(summary), time_s, step)

    def log_end(self, summary: RunSummary, time_s: float, step: int) -> None:
        """Logs the figures of the run as metrics, the findings as tags, and both as artifacts."""
        tags = {f"gpukit.{name}": text for name, text in texts_of(summary).items()}
        self._log(figures_of_run(summary), time_s, step, tags)
        folder = f"gpukit/fit_to_step_{step}"  # of several fits in one run, each has its own
        for name, text in files_of(summary).items():
            self._client.log_text(self._run_id, text, f"{folder}/{name}")
        self._status = "FINISHED" if summary.ending == "completed" else "FAILED"

    def close(self) -> None:
        """Ends a run of its own."""
        if self._own:
            self._mlflow.end_run(self._status)

    def _log(
        self,
        figures: dict[str, float],
        time_s: float,
        step: int,
        tags: dict[str, str] | None = None,
    ) -> None:
        from mlflow.entities import Metric, RunTag

        self._client.log_batch(
            self._run_id,
            metrics=[Metric(*each, round(1e3 * time_s), step) for each in figures.items()],
            tags=[RunTag(*each) for each in (tags or {}).items()],
        )
