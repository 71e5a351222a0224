"""`Monitor`: all measurements of this package in one callback, and a verdict on them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from keras_gpukit.arguments import (
    Verbose,
    check_auto_or_flag,
    check_flag,
    check_verbose,
    naming_likely,
    refuse,
)
from keras_gpukit.callbacks.base import WatchingCallback
from keras_gpukit.callbacks.device_placement import DevicePlacement
from keras_gpukit.callbacks.gpu_memory import GPUMemory
from keras_gpukit.callbacks.input_stall import InputStall
from keras_gpukit.callbacks.profiler import Profiler, profiler_of_monitor
from keras_gpukit.callbacks.throughput import Throughput
from keras_gpukit.callbacks.utilization import Utilization
from keras_gpukit.errors import logger
from keras_gpukit.monitoring import worker_watch
from keras_gpukit.monitoring.call_frame import callbacks_of_fit
from keras_gpukit.monitoring.epoch_memory import FitMemory
from keras_gpukit.monitoring.hangs import HangWatch
from keras_gpukit.monitoring.learning import LearningWatch
from keras_gpukit.monitoring.nvtx_ranges import NVTXRanges, load_nvtx
from keras_gpukit.monitoring.run_so_far import LiveView
from keras_gpukit.monitoring.session import Session
from keras_gpukit.monitoring.step_prediction import count_flops
from keras_gpukit.records.run import Overhead, RunSummary
from keras_gpukit.records.steps import Phase
from keras_gpukit.reports.console import print_summary
from keras_gpukit.reports.terminal import is_notebook, profiled_again
from keras_gpukit.rules import judge_run
from keras_gpukit.saved_runs.exporting import check_log_to


class Monitor(WatchingCallback[RunSummary]):
    """Monitors a run with almost no overhead, and reports its bottleneck in plain words.

    It measures what `InputStall`, `Throughput`, `GPUMemory`, `Utilization` and `DevicePlacement`
    do. After the run it writes a verdict to TensorBoard as the text `findings`, and prints it
    unless the run was interrupted; it also writes its own overhead per step and the text `setup`.
    It captures a profile if `<log_dir>/gpukit/capture` appears and no `Profiler` is there. On a GPU
    it also captures ten executions by itself, once a `fit` has run for 20 s and steps are steady,
    and again if they become slower. If such a profile refutes the measured input stall, the summary
    and the verdict are corrected by it, and say so. On a CPU it captures up to
    ten executions, once a `fit` has run for 10 s, steps are steady and compute is most of the
    time, if that costs at most 1 % of the run and 0.3 s; after 5 s, if two cost no more; and after
    4 s, if steps run eagerly or the model has preprocessing layers.

    In a notebook it shows its figures and the verdict so far while `fit` runs.

    If no step ends for a minute, or 20 times as long as usual, it says on standard error what the
    process does.

    In a cluster it also measures the time in collectives and round trips to other workers, and the
    chief names the worker that the others wait for, if all use the same log directory.

    Args:
        log_dir: Everything measured is written to `<log_dir>/gpukit`; None writes nothing.
        verbose: 0 prints nothing, 1 the verdict, 2 the verdict with all figures, findings and
            advice; "auto" prints it only after `fit`, unless that was called with `verbose=0`, and
            in a cluster only on the chief.
        predict_memory: Whether to predict the memory of a step; see `predict` of `GPUMemory`.
        capture: "auto" lets it capture by itself, if there is a log directory; not in a
            cluster, where that may crash a worker, nor next to another profiler. False does not.
        nvtx: Whether to name phases, epochs and steps as NVTX ranges for Nsight Systems. This needs
            the extra `nvtx`.
        log_to: Services that each `fit` is also logged to: "mlflow", "wandb" (Weights & Biases),
            "otel" (OpenTelemetry), or several as a list. Each needs the extra of its name.

    Attributes:
        summary: After the run, a `RunSummary`.

    Raises:
        TypeError: If `log_dir` is not a path, `nvtx` not True or False, or `log_to` neither a name
            nor a list or tuple.
        ValueError: If `log_dir` is empty or a file, or another argument has no value listed above.
        ImportError: If the package is not installed that `nvtx` or `log_to` needs.
    """

    @naming_likely
    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = "logs",
        *,
        verbose: Verbose = "auto",
        predict_memory: Literal["auto"] | bool = "auto",
        capture: Literal["auto", False] = "auto",
        nvtx: bool = False,
        log_to: str | Sequence[str] = (),
    ) -> None:
        super().__init__(log_dir)
        check_verbose(verbose)
        check_auto_or_flag("predict_memory", predict_memory)
        if capture != "auto" and capture is not False:
            refuse("capture", '"auto" or False', capture, ValueError)
        check_flag("nvtx", nvtx)
        if nvtx:
            load_nvtx()
        self.log_to = check_log_to(log_to)
        self._nvtx = nvtx
        self._ranges: NVTXRanges | None = None
        self.verbose = verbose
        self.memory = GPUMemory(None, predict=predict_memory)
        # The parts write through this callback's session.
        self._parts: list[WatchingCallback[Any]] = [Throughput(None), InputStall(None), self.memory]
        self._parts += [Utilization(None), DevicePlacement(None)]
        self._learning: LearningWatch | None = None
        self._workers: worker_watch.WorkerWatch | None = None
        self._live: LiveView | None = None
        self._profiler: Profiler | None = None
        if self._log_dir is not None:
            self._profiler = profiler_of_monitor(self._log_dir, automatic=capture == "auto")
            self._parts.append(self._profiler)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Notes that an epoch begins."""
        super().on_epoch_begin(epoch, logs)
        if self._ranges is not None:
            self._guarded(self._ranges.begin, f"epoch {epoch + 1}", once=False)

    def on_predict_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Notes that `predict` requests a batch, which it fetches outside its step function."""
        super().on_predict_batch_begin(batch, logs)
        if self._ranges is not None:
            self._guarded(self._ranges.fetch_begins, once=False)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Notes that the results of a step are available, and looks at its losses."""
        super().on_train_batch_end(batch, logs)
        if self._learning is not None:
            self._learning.batch_ended(batch, logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Notes that an epoch ends, and looks at its losses and at a few weights."""
        super().on_epoch_end(epoch, logs)
        if self._learning is not None:
            self._guarded(self._learning.epoch_ended, logs, once=False)
        if self._ranges is not None:
            self._guarded(self._ranges.end, once=False)

    def _begin(self, session: Session, phase: Phase) -> None:
        for part in self._parts:
            part.begin_part(session, phase)
        if phase == session.phase:
            self._summary = None
            self._warn_of_doubles()
            steps = (self.params or {}).get("steps")
            self._learning = LearningWatch(session.steps, steps) if phase == "fit" else None
            if phase == "fit":
                session.output.log_to(self.log_to, is_chief=session.environment.is_chief)
            if phase == "fit" and session.environment.gpus:
                count_flops(session)
            self._workers = worker_watch.watch_workers(session)
            session.output.write_record("environment", session.environment)
            hangs = HangWatch(session.steps, in_cluster=self._workers is not None)
            session.sampling.every_second("whether steps go on", hangs.poll)
            session.steps.on_window(
                phase, session.output.overhead_writer(lambda: session.overhead_s)
            )
            self._ranges = NVTXRanges() if self._nvtx else None
            if is_notebook() and self._prints(session, phase):
                self._live = LiveView(session.output)
                session.sampling.every_second("the live view", self._live.update)
        if self._ranges is not None:
            self._ranges.begin(phase if phase == session.phase else "validation")
            self._ranges.mark_steps(session.steps, phase)

    def _warn_of_doubles(self) -> None:
        own = [watcher for watcher in callbacks_of_fit() if isinstance(watcher, WatchingCallback)]
        names = [type(watcher).__name__ for watcher in own if not isinstance(watcher, Profiler)]
        if (
            len(names) > 1
            and next(watcher for watcher in own if isinstance(watcher, Monitor)) is self
        ):
            logger.warning(
                "keras_gpukit: callbacks has %s. One Monitor measures all that they do: leave the "
                "others out.",
                ", ".join(names),
            )

    def _end(self, session: Session, phase: Phase) -> None:
        for part in self._parts:
            part.end_part(session, phase, logs=self._guard.logs)
        if phase != session.phase:
            if self._ranges is not None:
                self._ranges.end()
            return
        live, self._live = self._live, None  # so that this callback can be copied
        if live is not None:
            live.close()
        ranges, self._ranges = self._ranges, None
        if ranges is not None:
            ranges.end_all()
        output = session.output
        if self._learning is not None:
            output.write_record("learning", self._learning.learning_record())
        self._learning = None
        if self._profiler is not None and self._profiler.summary is not None:
            output.write_record("profiler", self._profiler.summary)
        stacks = session.sampling.line_times(session.steps.frame.thread)
        if stacks is not None:
            output.write_record("stacks", stacks)
        output.write_record("overhead", Overhead(None, 0, session.overhead_s, session.startup_s))
        session.record_end()
        watched, self._workers = self._workers, None
        captures = self._profiler and self._profiler.of_fit().so_far
        measured = output.fold.summary()
        workers = worker_watch.compared(session, watched, measured, captures)
        if workers is not None:
            output.write_record("workers", workers)
        self._summary = summary = judge_run(replace(measured, workers=workers))
        output.write_record("summary", summary)
        if summary.ending == "completed" and self._prints(session, phase):
            details = self.verbose == 2
            print_summary(summary, log_dir=self._log_dir, details=details, again=profiled_again())

    def _prints(self, session: Session, phase: Phase) -> bool:
        if self.verbose == "auto":
            shows_progress = bool((self.params or {}).get("verbose", 1))
            return phase == "fit" and session.environment.is_chief and shows_progress
        return bool(self.verbose)


def monitor_of_script(log_dir: Path, fits: FitMemory, log_to: Sequence[str]) -> Monitor:
    """Returns a `Monitor` that prints nothing and continues the memory of a script's fits."""
    monitor = Monitor(log_dir, verbose=0, log_to=log_to)
    monitor.memory.fits = fits
    return monitor
