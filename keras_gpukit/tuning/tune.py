"""`tune`: measures which change of how a model trains makes it faster."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from keras_gpukit.arguments import Verbose, check_number, check_verbose, check_whole, refuse
from keras_gpukit.errors import TrialError
from keras_gpukit.records.tuning import Promise, SpeedupSearch
from keras_gpukit.reports.searches import speedup_view as render
from keras_gpukit.reports.terminal import print_anywhere
from keras_gpukit.rules.gains import TOLERANCE, changes_to_try
from keras_gpukit.tuning.measured_fit import started
from keras_gpukit.tuning.processes import ProcessSettings, check_importable, prepared_context
from keras_gpukit.tuning.sources import ProgressLine, check_experiment
from keras_gpukit.tuning.speedup_search import SpeedupTrials, Start

MINUTES = 5.0


def tune(
    build: Callable[[], Any],
    data: Any,
    *,
    batch_size: int | None = None,
    changes: Sequence[str] = (),
    minutes: float = MINUTES,
    tolerance: float = TOLERANCE,
    verbose: Verbose = "auto",
) -> SpeedupSearch:
    """Measures which change of how a model trains makes it faster, and by how much.

    Each change is tried in a new process, which takes turns with a process of the unchanged
    training; then those that gain together. A gain counts if it is 5 % or more, and outside the
    noise with 95 % confidence. A change after which the mean loss over the same examples differs is
    not kept. Weights and the order of the data start from the same seed in each process.

    The changes are: the input as by `tune_input`, graphs instead of eager steps, XLA on or off,
    several steps per execution, mixed precision on GPUs that are fast at it, a pool for the memory
    of tensors on CPUs, and larger batches.
    The program itself is not changed: the result has the lines to change.

    The script must guard its code with `if __name__ == "__main__":`. On GPUs, this process must not
    take all the memory: call `configure_gpus(memory="growth")`. Ctrl-C ends it, and the result has
    what is known by then.

    Args:
        build: Function without arguments that makes a compiled model, and that another process can
            import.
        data: The data of `fit`: a tuple of arrays `(x, y)` or `(x, y, sample_weight)`, a
            `keras.utils.PyDataset`, or a function that makes one of these or a `tf.data.Dataset`
            of batches, and that another process can import.
        batch_size: Examples per batch of arrays; 32 by default.
        changes: Names of the only changes to try, or codes of findings whose advice to try; by
            default all that suit the training.
        minutes: Total time. A trial that has started is finished even if it takes longer.
        tolerance: Largest difference of the loss at which a change is kept, as a share.
        verbose: 0 prints nothing; 1, 2 and "auto" show progress and print the result.

    Raises:
        ValueError: If another process cannot import a function or read the data, or another
            argument is out of range.
        TypeError: If an argument has another type.
        TrialError: If the unchanged training cannot be measured.

    Example:
        ```python
        if __name__ == "__main__":
            found = gpukit.tune(build_model, make_dataset)
            found.best.gain  # 1.8
        ```
    """
    check_experiment("tune", minutes=minutes)
    check_number("tolerance", tolerance, "a number above 0", lambda v: v > 0)
    check_whole("batch_size", batch_size, optional=True)
    check_verbose(verbose)
    import keras

    if isinstance(build, keras.Model) or not callable(build):  # a model can be called, too
        refuse("build", "a function that makes a compiled model", build, TypeError)
    check_importable("build", build)
    _check_data(data)
    names = changes_to_try(changes)
    functions = Functions(build, data, batch_size, ProcessSettings.of_this_process())
    with prepared_context() as context:
        found = search(
            partial(started, context, functions.train),
            getattr(build, "__name__", "the model"),
            names=names,
            minutes=minutes,
            tolerance=tolerance,
            shown=bool(verbose),
        )
    if verbose:
        print_anywhere(render(found))
    return found


@dataclass(frozen=True)
class Functions:
    """The functions that `tune` got, for a process that calls them."""

    build: Callable[[], Any]
    data: Any
    batch_size: int | None
    settings: ProcessSettings

    def train(self, keras_imported: Callable[[], None]) -> None:
        """Builds the model and trains it."""
        import keras

        self.settings.make()
        keras_imported()
        model = self.build()
        if not isinstance(model, keras.Model) or not model.compiled:
            raise TrialError(f"`build` must return a compiled keras.Model. It returns {model!r}")
        data = self.data() if callable(self.data) else self.data
        x, y, weights, *_ = (*data, None, None) if isinstance(data, tuple) else (data, None, None)
        model.fit(x, y, sample_weight=weights, batch_size=self.batch_size, verbose=0)


def search(
    start: Start,
    subject: str,
    *,
    names: Sequence[str],
    minutes: float,
    tolerance: float,
    shown: bool,
    recorded: Sequence[Promise] = (),
) -> SpeedupSearch:
    """Tries changes with processes that `start` starts; shows progress if `shown`."""
    seconds = 60 * minutes
    with ProgressLine("tune", seconds, shown=shown) as show_progress:
        trials = SpeedupTrials(
            start,
            seconds=seconds,
            tolerance=tolerance,
            show_progress=show_progress,
            recorded=recorded,
        )
        return trials.run(subject, names)


def _check_data(data: Any) -> None:
    import tensorflow as tf

    if isinstance(data, tf.data.Dataset):
        raise TypeError(
            "`data` must be a function that makes the tf.data.Dataset, since another process "
            f"cannot read this one. Received: data={data!r}"
        )
    if callable(data):
        check_importable("data", data)
        return
    try:
        pickle.dumps(data)
    except Exception as error:
        raise ValueError(
            "`data` must be arrays, a PyDataset, or a function that makes the data, that another "
            f"process can read. Received: {error}"
        ) from error
