"""`Monitor`: all measurements of this package in one callback, and a verdict on them."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, Literal

from keras_gpukit.arguments import Verbose, check_auto_or_flag, check_verbose, refuse
from keras_gpukit.callbacks.base import WatchingCallback
from keras_gpukit.callbacks.device_placement import DevicePlacement
from keras_gpukit.callbacks.gpu_memory import GPUMemory
from keras_gpukit.callbacks.input_stall import InputStall
from keras_gpukit.callbacks.profiler import Profiler
from keras_gpukit.callbacks.throughput import Throughput
from keras_gpukit.callbacks.utilization import Utilization
from keras_gpukit.records.names import FINDINGS
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.steps import Phase
from keras_gpukit.reports.console import print_summary
from keras_gpukit.reports.text import markdown
from keras_gpukit.rules import judge
from keras_gpukit.rules.input.bottleneck import corrected
from keras_gpukit.rules.whole_run.hangs import with_hangs
from keras_gpukit.watching import worker_watch
from keras_gpukit.watching.hangs import HangWatch
from keras_gpukit.watching.learning import LearningWatch
from keras_gpukit.watching.session import Session


class Monitor(WatchingCallback[RunSummary]):
    """Monitors a run with almost no overhead, and reports its bottleneck in plain words.

    It measures what `InputStall`, `Throughput`, `GPUMemory`, `Utilization` and `DevicePlacement`
    do. After the run it writes a verdict to TensorBoard as the text `findings`, and prints it
    unless the run was interrupted; it also writes its own overhead per step and the text `setup`.
    It captures a profile if `<log_dir>/gpukit/capture` appears and no `Profiler` is there. On a GPU
    it also captures ten executions by itself, once a `fit` has run for 20 s and steps are steady,
    and again if they become slower. If such a profile refutes the measured input stall, the summary
    and the verdict are corrected by it, and say so. On a CPU it captures after 4 s, if steps run
    eagerly or the model has preprocessing layers.

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

    Attributes:
        summary: After the run, a `RunSummary`.

    Raises:
        TypeError: If `log_dir` is not a path.
        ValueError: If `log_dir` is empty or a file, or another argument has no value listed above.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = "logs",
        *,
        verbose: Verbose = "auto",
        predict_memory: Literal["auto"] | bool = "auto",
        capture: Literal["auto", False] = "auto",
    ) -> None:
        super().__init__(log_dir)
        check_verbose(verbose)
        check_auto_or_flag("predict_memory", predict_memory)
        if capture != "auto" and capture is not False:
            refuse("capture", '"auto" or False', capture, ValueError)
        self.verbose = verbose
        self._throughput = Throughput(None)  # the parts write through this callback's session
        self._input_stall = InputStall(None)
        self._memory = GPUMemory(None, predict=predict_memory)
        self.continue_with = self._memory.continue_with
        self._utilization = Utilization(None)
        self._placement = DevicePlacement(None)
        self._parts: list[WatchingCallback[Any]] = [self._throughput, self._input_stall]
        self._parts += [self._memory, self._utilization, self._placement]
        self._learning: LearningWatch | None = None
        self._comparing: worker_watch.Comparing | None = None
        self._hangs: HangWatch | None = None
        self._profiler: Profiler | None = None
        if self._log_dir is not None:
            self._profiler = Profiler.of_monitor(self._log_dir, automatic=capture == "auto")
            self._parts.append(self._profiler)
        self.lifecycle.parts = tuple(part.lifecycle for part in self._parts)

    def begin(self, session: Session, phase: Phase) -> None:
        """Starts all measurements."""
        for part in self._parts:
            part.lifecycle.guard(part.begin, session, phase)
        if phase == session.phase:
            self._summary = None
            self._learning = LearningWatch(session) if phase == "fit" else None
            self._comparing = worker_watch.watch_what_trains_in_step(session)
            session.write_environment()
            in_cluster = isinstance(self._comparing, worker_watch.WorkerWatch)
            self._hangs = HangWatch(session, in_cluster=in_cluster)
            session.every_second("whether steps go on", self._hangs.look)
            session.on_window(phase, session.output.overhead_writer(lambda: session.overhead_s))

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Notes that the results of a step are available, and looks at its losses."""
        super().on_train_batch_end(batch, logs)
        if self._learning is not None:
            self._learning.batch_ended(batch, logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Notes that an epoch ends, and looks at its losses and at a few weights."""
        super().on_epoch_end(epoch, logs)
        if self._learning is not None:
            self.lifecycle.guard(self._learning.epoch_ended, logs, once=False)

    def end(self, session: Session, phase: Phase) -> None:
        """Ends all measurements; at the end of the run, also makes the summary and the verdict."""
        for part in self._parts:
            part.lifecycle.guard(part.end, session, phase)
        if phase != session.phase:
            return
        comparing, self._comparing = self._comparing, None  # so that this callback can be copied
        captures = self._profiler and self._profiler.captures_so_far()
        measured = worker_watch.with_comparison(self._sum_up(session), comparing, captures)
        hangs, self._hangs = self._hangs, None
        measured = corrected(with_hangs(measured, hangs.hangs if hangs else ()))
        self._learning = None
        self._summary = summary = replace(measured, verdict=judge(measured))
        session.output.values(session.step, {FINDINGS: markdown(summary)})
        session.output.record("summary", summary, session.step)
        if summary.ending == "completed" and self._prints(session, phase):
            print_summary(summary, log_dir=self._log_dir, details=self.verbose == 2)

    def _sum_up(self, session: Session) -> RunSummary:
        steps, part = session.own_steps.steps, session.wall.part
        errors = session.errors if session.ending == "interrupted" else None
        return RunSummary(
            environment=session.environment,
            throughput=self._throughput.summary,
            input=self._input_stall.summary,
            memory=self._memory.summary,
            operations=self._placement.summary,
            utilization=self._utilization.summary,
            captures=None if self._profiler is None else self._profiler.summary,
            profile=None if self._profiler is None else self._profiler.automatic_profile,
            validation=self._throughput.validation,
            validation_input=self._input_stall.validation,
            overhead_s=session.overhead_s / steps if steps else None,
            startup_s=session.startup_s,
            ending=session.ending,
            ended_by=errors.last if errors else None,
            error_message=errors.message if errors else None,
            error_line=errors.line if errors else None,
            series=session.output.series.record(),
            out_of_memory=self._memory.out_of_memory,
            learning=self._learning.record() if self._learning else None,
            host_buffers=self._input_stall.host_buffers,
            first_step_s=session.wall.spent_s(part) if part == "first step" else None,
        )

    def _prints(self, session: Session, phase: Phase) -> bool:
        if self.verbose == "auto":
            shows_progress = bool((self.params or {}).get("verbose", 1))
            return phase == "fit" and session.environment.is_chief and shows_progress
        return bool(self.verbose)
