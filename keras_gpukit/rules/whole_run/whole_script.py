"""Whether the script takes time itself: its own profiles, eager steps, lines outside of calls."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from keras_gpukit.records.finding import Finding, Saving
from keras_gpukit.records.script import LineTime, ScriptProfile, ScriptRecord
from keras_gpukit.rules.rule import Measure, ScriptRule, Share, seconds
from keras_gpukit.rules.savings import CRITICAL_FRACTION, WARNING_FRACTION

LEAST_STOP_S = 1.0
"""Shortest end of a profile that is worth a finding. Our choice: that of ten steps took 0.1 to 0.3
s, that of 500 steps 1.4 s."""
LONG_S = 10.0
"""From here on a profile is long, even if no call of `fit` is whole within it; our choice."""
SAVED = 0.7
"""Least share of the time that ending the profile takes that is saved. Our choice: a short profile
has to be written as well. More is saved, since steps are faster without it, by how much is not
known."""


class OwnProfile(ScriptRule):
    """The script's own profile covers a whole `fit`, and ending it takes long."""

    code = "own-profile"
    title = "A TensorFlow profiler recorded the whole script"
    requires = "the profiles of a whole script, as `keras-gpukit run` sees them"
    recorded = Measure("The profiler recorded for {value}", "s")
    stop_took = Measure(", and its stop() took {value}", "s")

    def judge_script(self, script: ScriptRecord) -> Finding | None:
        long = [
            profile
            for profile in script.profiles
            if profile.whole_fits or profile.recorded_s >= LONG_S
        ]
        if not long:
            return None
        most = max(long, key=lambda profile: math.inf if profile.stop_s is None else profile.stop_s)
        if most.stop_s is None:
            return self.find(
                "warning",
                self.recorded(most.recorded_s),
                advice=_ADVICE,
                title=f"{_recorded(most)}, and was never stopped: its profile is lost",
            )
        share = script.share(most.stop_s)
        if most.stop_s < LEAST_STOP_S or share < WARNING_FRACTION:
            return None
        return self.find(
            "critical" if share >= CRITICAL_FRACTION else "warning",
            self.recorded(most.recorded_s),
            self.stop_took(most.stop_s),
            advice=_ADVICE,
            saving=Saving(SAVED * most.stop_s, None, script.wall_s, "ending the profile"),
            title=f"{_recorded(most)}; its stop() took {seconds(most.stop_s)} s",
        )


_ADVICE = (
    "profile ten steps: `keras.callbacks.TensorBoard(profile_batch=(20, 30))` alone, or `Profiler`",
    "TensorFlow records one profile at a time: while this one is recorded, that of a callback "
    "fails to start",
)


def _recorded(profile: ScriptProfile) -> str:
    what = {0: f"{seconds(profile.recorded_s)} s", 1: "the whole fit"}.get(
        profile.whole_fits, f"{profile.whole_fits:,} fits"
    )
    return f"A TensorFlow profiler recorded {what} (started at {profile.place})"


LEAST_EAGER_S = 1.0
"""Shortest time in eager operations that is worth a finding; our choice."""


class StepRunsEagerly(ScriptRule):
    """The step of a loop without `fit` runs its operations one by one, from Python."""

    code = "eager-step"
    title = "The training step runs eagerly"
    requires = "the stacks of a whole script, as `keras-gpukit run` samples them"
    steps = Measure("The loop ran {value} steps")
    step_time = Measure("A step takes {value}", "ms")
    of_each_step_eager = Share(", {value} of it in operations started from Python")

    def judge_script(self, script: ScriptRecord) -> Finding | None:
        step = script.eager_step
        if step is None or step.eager_s < LEAST_EAGER_S:
            return None
        share = min(step.eager_s / step.lasted_s, 1.0)
        of_script = step.eager_s / max(script.wall_s, step.eager_s)
        if share < WARNING_FRACTION or of_script < WARNING_FRACTION:
            return None
        if step.is_function:
            named = f"{step.function} ({step.place})"
            advice = f"decorate `{step.function}` with `@tf.function`"
        else:
            named = f"The step in the loop at {step.place}"
            advice = "move the step into a function of its own, with `@tf.function`"
        named += " calls `strategy.run`, and" if step.in_replicas else ""
        return self.find(
            "critical" if of_script >= CRITICAL_FRACTION else "warning",
            self.steps(step.steps),
            self.step_time(1e3 * step.lasted_s / step.steps),
            self.of_each_step_eager(share),
            advice=(
                f"{advice}: Python then starts one graph for each step, and not every operation",
                "pass it tensors, and no Python numbers that change: each new one is traced again",
                "what has to stay Python, such as `print` or `float(loss)`, goes after the step",
            ),
            saving=Saving(
                0.0, step.eager_s, script.wall_s, "operations started from Python", upper_bound=True
            ),
            title=f"{named} runs eagerly: {100 * share:.0f} % of each step are operations that "
            "Python starts one by one",
        )


# Remedies by a part of the error's text, in lower case. CUPTI is NVIDIA's library for profilers.
# Its errors and the driver's option: https://developer.nvidia.com/ERR_NVGPUCTRPERM
REMEDIES = {
    "privilege": (
        "NVIDIA's driver lets only administrators profile GPUs, so what ran on them is not in the "
        "profile. Start the container with --cap-add=SYS_ADMIN, or have an administrator set the "
        "driver's option NVreg_RestrictProfilingToAdminUsers=0 and restart the machine."
    ),
    "load libcupti": (
        'CUPTI is not installed: pip install "tensorflow[and-cuda]" brings it, and elsewhere the '
        "folder extras/CUPTI/lib64 of CUDA belongs in LD_LIBRARY_PATH."
    ),
}


def remedy(error: str) -> str | None:
    """Returns what is wrong and how to fix it; None for an unknown error."""
    text = error.lower()
    return next((remedy for sign, remedy in REMEDIES.items() if sign in text), None)


LEAST_OUTSIDE_S = 3.0
"""Shortest time that is worth a finding: loading a small data set takes as long. Our choice."""
MOST_SOURCE = 50
"""Characters of a line that the title shows; our choice."""
STEP = "Function.__call__"
"""A `tf.function`, which is a step of the script's own rather than time outside of steps."""
ADVICE: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        r"\.adapt\b",
        (
            "give `adapt` batches: `adapt(ds.batch(256))`. Of a dataset that is not batched, it "
            "takes the examples one by one, each in eager operations",
            "adapt once and save the vocabulary or the statistics with the model",
        ),
    ),
    (
        r"ragged\.constant",
        (
            "`tf.RaggedTensor.from_row_lengths(np.concatenate(rows), [len(row) for row in rows])`: "
            "`tf.ragged.constant` looks at each number in Python, several times",
        ),
    ),
    (
        r"np\.append|numpy\.append|iterrows",
        (
            "collect what is new in a list, and join it once after the loop: `np.append` copies "
            "the whole array each time, and `iterrows` makes an object of each row",
        ),
    ),
    (
        r"OwnedIterator|NumpyIterator|as_numpy_iterator",
        (
            "each element of the dataset takes Python and an eager call here: iterate over "
            "`ds.batch(1024)`, or compute the result within the pipeline (`ds.reduce`)",
        ),
    ),
    (
        r"get_file|tfds\.load|download|urlopen|urlretrieve|requests\.|from_pretrained|snapshot",
        ("keep what was downloaded on a local disk that outlives the job, and read it from there",),
    ),
    (
        r"glob|listdir|scandir|imread|Image\.|load_img|read_csv|np\.load|loadtxt|\bopen\(|read\(",
        (
            "read files in parallel within the pipeline, `ds.map(load, "
            "num_parallel_calls=tf.data.AUTOTUNE)`, while training runs",
            "or convert them once into few large files (TFRecord, NumPy, Parquet)",
        ),
    ),
)
WAITS = ("the line waits and does not compute: wait for several things in parallel",)
UNKNOWN = (
    "if the result is the same each time, compute it once: before the loop that the line is in, or "
    "saved for later runs, as with `np.save`",
)


PROFILE = "with tf.profiler.experimental.Profile('profile'):"
TRACE = "with tf.profiler.experimental.Trace('train', step_num=i, _r=1):"
OWN_STEPS = (
    f"look into them: `{PROFILE}` around 20 of the calls and `{TRACE}` around each, then "
    "`keras-gpukit report profile`",
    "or, if it is a training step, move it into the `train_step` of a `keras.Model` and train with "
    "`fit`, whose steps are looked into",
)


class TimeOutsideCalls(ScriptRule):
    """Much of a script's time passes before, between or after its calls, mostly on one line."""

    code = "outside-calls"
    title = "Much of the script's time passed outside fit"
    requires = "the lines of a whole script, as `keras-gpukit run` samples them"
    time_on_the_line = Measure("The line takes {value}", "s")
    of_the_script = Share(", {value} of the script")

    def judge_script(self, script: ScriptRecord) -> Finding | None:
        # Of a script without any call, its own loop is judged by itself.
        parts = [
            (part, _longest([line for line in part if script.calls or line.called != STEP]))
            for part in (script.before, script.rest)
        ]
        lines, (line, spent_s) = max(parts, key=lambda pair: pair[1][1])
        if line is not None and line.called == STEP:
            spent_s = line.seconds
        share = spent_s / max(script.wall_s, spent_s) if spent_s else 0.0
        if line is None or spent_s < LEAST_OUTSIDE_S or share < WARNING_FRACTION:
            return None
        figures = self.time_on_the_line(spent_s), self.of_the_script(share)
        passed = f"{seconds(spent_s)} of {seconds(script.wall_s)} s passed"
        if line.called == STEP:
            call = re.search(r"[\w.]+\(.*\)", line.source.partition("  #")[0])
            step = f"{call[0] if call else line.function} ({line.place})"
            title = f"{passed} in calls of a tf.function of the script's own, {step}, outside fit"
            return self.find("warning", *figures, advice=OWN_STEPS, title=title)
        text = f"{line.called or ''} {line.source}"
        known = next((advice for pattern, advice in ADVICE if re.search(pattern, text)), None)
        return self.find(
            "critical" if share >= CRITICAL_FRACTION else "warning",
            *figures,
            advice=known or (WAITS if line.mostly_waits else UNKNOWN),
            saving=Saving(0.0, spent_s, script.wall_s, f"time in {line.place}", upper_bound=True),
            title=f"{passed} {_when(script, lines)}in {_named(line, spent_s)}",
        )


def _longest(lines: Sequence[LineTime]) -> tuple[LineTime | None, float]:
    """Returns the longest line and its seconds, or those of its function if that has more lines."""
    if not lines:
        return None, 0.0
    by_function: dict[tuple[str, str], float] = {}
    for line in lines:
        key = line.place.rpartition(":")[0], line.function
        by_function[key] = by_function.get(key, 0.0) + line.seconds
    key = max(by_function, key=lambda function: by_function[function])
    inside = [line for line in lines if (line.place.rpartition(":")[0], line.function) == key]
    longest = max(lines, key=lambda line: line.seconds)
    # A module is no function that one could look into: its lines stand for themselves.
    if key[1] == "<module>" or longest.seconds > by_function[key] / 2:
        return longest, longest.seconds
    return max(inside, key=lambda line: line.seconds), by_function[key]


def _when(script: ScriptRecord, lines: Sequence[LineTime]) -> str:
    methods = list(dict.fromkeys(call.method for call in script.calls))
    name = methods[0] if len(methods) == 1 else "fit" if "fit" in methods else "the calls"
    if not methods:
        return ""
    return f"before {name}, " if lines is script.before else f"outside {name}, "


def _named(line: LineTime, spent_s: float) -> str:
    if spent_s > line.seconds:  # of a function with several such lines
        return f"{line.function}, most of it on the line {line.place}"
    # A look at plain Python comes at the end of a loop's turn, so such a line proves nothing.
    is_proof = "(" in line.source or line.function == "<module>"
    called = line.called or line.function
    if is_proof and 0 < len(line.source) <= MOST_SOURCE:
        called = line.source
    elif line.called:  # as the script writes it: "tf.ragged.constant"
        name = re.escape(line.called.rpartition(".")[2])
        written = re.search(rf"[\w.]*\b{name}(?=\()", line.source)
        if written:
            called = written[0]
        elif len(line.source) > MOST_SOURCE and "." not in line.called:
            # The name of a decorator's function says nothing.
            called = f"{line.source[: MOST_SOURCE - 1]}…"
    return f"{called} ({line.place})"
