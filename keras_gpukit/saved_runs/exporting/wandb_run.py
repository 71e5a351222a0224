"""Logs a run to Weights & Biases: history, summary, and the verdict as an artifact."""

from __future__ import annotations

import sys
from typing import Any

from keras_gpukit.errors import GPUKitError
from keras_gpukit.records.run import RunSummary
from keras_gpukit.saved_runs.exporting.exporter import (
    Exporter,
    figures_of,
    figures_of_run,
    files_of,
    texts_of,
)

STEP = "gpukit/step"


class WandbRun(Exporter):
    """Logs to the run that the user has started; otherwise starts one of its own, and ends it.

    In the user's run, points wait for the next row that the user logs: a row of their own would
    count up its steps, and W&B drops what the user then logs to an earlier one.

    Raises:
        GPUKitError: If a run is to be started, and W&B knows no account and is not offline.
    """

    def __init__(self, run: Any) -> None:
        super().__init__()
        self._own = run is None
        self._run = run or _new_run()
        self._run.define_metric(STEP, hidden=True, summary="none")
        self._run.define_metric("gpukit/*", step_metric=STEP, summary="none")
        self._exit_code = 1

    @staticmethod
    def active() -> Any:
        """Returns the user's run; None without one."""
        return getattr(sys.modules.get("wandb"), "run", None)

    def log_point(self, summary: RunSummary, time_s: float, step: int) -> None:
        """Logs a point of each figure, with the global step as its x axis."""
        self._run.log({STEP: step, **figures_of(summary)}, commit=self._own)

    def log_end(self, summary: RunSummary, time_s: float, step: int) -> None:
        """Adds the figures of the run and its findings to the summary, and both as an artifact."""
        import wandb

        texts = {f"gpukit/{name}": text for name, text in texts_of(summary).items()}
        self._run.summary.update({**texts, **figures_of_run(summary)})
        artifact = wandb.Artifact(f"gpukit-{self._run.id}", type="gpukit")
        for name, text in files_of(summary).items():
            with artifact.new_file(name, encoding="utf-8") as file:
                file.write(text)
        self._run.log_artifact(artifact)
        self._exit_code = 0 if summary.ending == "completed" else 1

    def close(self) -> None:
        """Ends a run of its own."""
        if self._own:
            self._run.finish(exit_code=self._exit_code)


def _new_run() -> Any:
    """Starts a run that is not the process's global one, which the user may still start."""
    import wandb

    # Without this, `init` may ask for an account on this thread, and wait for an answer.
    if wandb.setup().settings.mode in ("online", "shared", "run") and not wandb.login(prompt=False):
        raise GPUKitError("no account is known: run `wandb login`, or set WANDB_MODE=offline")
    return wandb.init(reinit="create_new", settings={"console": "off"})
