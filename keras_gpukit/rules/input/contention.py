"""Whether threads slow each other down, through the GIL or through cores, and whether they wait."""

from __future__ import annotations

from keras_gpukit.records.pipeline import ContentionRecord, PipelineRecord
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.steps import InputRecord
from keras_gpukit.records.tuning import Contention, ContentionCause, Rate

GIL_WAIT_S = 0.25e-3
"""In benchmarks/results/diagnose_ceiling.json a sleeping thread woke up 0.08 to 0.14 ms late, and
0.6 ms late if a producer held the GIL; the line between is our choice."""
CORES_BUSY_FRACTION = 0.70
"""Training and making batches in turns leaves cores idle now and then. In the same file, on two
cores, pipelines that compute kept 72 to 97 % of them busy, and pipelines that wait up to 35 %; the
line between is our choice."""
LEAST_GIL_CORES = 0.5
"""Least processor time of a process that contends for the GIL, in cores; our choice."""
LEAST_HOLDER_CORES = 0.2
"""Least processor time of the threads that make batches if they hold the GIL, in cores; our
choice."""
SMALLEST_SHORTFALL = 0.10
"""Smallest shortfall that counts, as a share of the lower of the two rates alone; our choice. A
batch replayed from memory is not quite the same as a fetched one."""
SAME = 0.10
"""Relative difference up to which two rates count as equal; our choice."""

FETCH_S = 0.5e-3
"""Upper bound of how much longer a fetch takes outside the train step than within; our choice."""

LEAST_LEFT = 0.1
"""Least share of the cores that counts as left to a run, however busy others are; our choice."""
WAITING_RATIO = 2.0
"""Smallest ratio of a stage's time to the processor time that it may have used, both per step, from
which the stage counts as waiting: at least half of its time is then no computation. Our choice."""
WAITING_CALLS = 16
"""Parallel calls, threads or workers advised for code that waits; our choice. They need no cores of
their own. `tune_input` tries more."""

ADVICE: dict[ContentionCause, str] = {
    "interpreter lock": (
        "Python code that makes batches holds the GIL (global interpreter lock), which training "
        "needs too: use TensorFlow operations, or other processes"
    ),
    "all cores busy": "The cores are mostly busy: do less work per example, or use more cores",
    "nothing ahead": (
        "No batch is prepared while the model trains: end the pipeline with "
        "prefetch(tf.data.AUTOTUNE)"
    ),
}
"""Meaning of each cause, and what to change."""


def gil_is_contended(record: ContentionRecord | None, cores: int | None) -> bool:
    """Whether threads of a run were seen to wait for the GIL.

    A thread also wakes late if other processes keep the cores busy. Python code that holds the GIL
    computes meanwhile, so a process that uses less than half a core does not contend for it.
    """
    if record is None or record.gil_wait_s is None or record.gil_wait_s < GIL_WAIT_S:
        return False
    if record.cores_busy_fraction is None or not cores:
        return True
    return record.cores_busy_fraction * cores >= LEAST_GIL_CORES


def input_holds_gil(record: InputRecord, cores: int | None) -> bool:
    """Whether threads wait for the GIL, and those that make batches may be what holds it.

    Threads that hardly compute do not hold it: then it is the script's other code, as another fit.
    """
    contention = record.contention
    if contention is None or not gil_is_contended(contention, cores):
        return False
    if contention.input_cores_fraction is None or not cores or not _is_made_ahead(record.pipeline):
        return True
    return contention.input_cores_fraction * cores >= LEAST_HOLDER_CORES


def cores_left(summary: RunSummary) -> float:
    """Returns the share of all cores that processes outside the job left to this run; 1 if unknown.

    Threads of a run compete for these cores: it is short of them once it keeps most of them busy.
    """
    others_percent = (summary.host.others_cpu_percent if summary.host else None) or 0.0
    return max(1 - others_percent / 100, LEAST_LEFT)


def mostly_waits(record: InputRecord, summary: RunSummary) -> bool:
    """Whether the code that the input spends its time in mostly waits, as measured.

    The processor time of the threads that make batches, or of the whole process if that is
    unknown, is the most that the code can have computed. The threads of other fits at the same time
    count too, so with them it is found less often. Threads that wait for a core do not
    compute either: that time counts as computing where the system measures it. Elsewhere, the
    answer is False if the cores of the machine are busy. It is False if the GIL is contended, if
    the code runs in other processes, and without evidence.
    """
    contention, cores = record.contention, summary.environment.cpu_count
    if contention is None or contention.cores_busy_fraction is None or not cores:
        return False
    if input_holds_gil(record, cores) or (record.python and record.python.in_processes):
        return False
    busy, queued = contention.cores_busy_fraction, contention.input_queued_ratio
    if contention.input_cores_fraction is not None and _is_made_ahead(record.pipeline):
        busy = min(busy, contention.input_cores_fraction)
    of_machine = ((summary.host.cpu_percent if summary.host else None) or 0.0) / 100
    is_busy = max(of_machine, contention.cores_busy_fraction) >= CORES_BUSY_FRACTION
    if queued is None and is_busy:
        return False
    slowest = record.pipeline.bottleneck if record.pipeline else None
    spent_s = slowest.cost_per_batch_s if slowest else None
    if record.python is not None and record.python.time_per_batch_s is not None:
        spent_s = record.python.time_per_batch_s
    if spent_s is None or not record.wait_s or not record.stall_fraction:
        return False
    computed_s = busy * cores * record.wait_s / record.stall_fraction
    return spent_s >= WAITING_RATIO * computed_s * (1 + (queued or 0.0))


def _is_made_ahead(pipeline: PipelineRecord | None) -> bool:
    """Whether threads that tf.data started for the run work on the bottleneck, not those of steps.

    `prefetch` starts such a thread. Without it, what makes a batch may be a thread of the steps.
    """
    if pipeline is None or pipeline.bottleneck not in pipeline.stages:
        return False
    nearer = pipeline.stages[: pipeline.stages.index(pipeline.bottleneck)]
    return any(stage.kind == "prefetch" for stage in nearer)


def contradicts(data_only: Rate, actual: Rate) -> bool:
    """Whether training was faster than its input alone, beyond their intervals.

    No input allows that: the rates contradict each other. The difference must be at least a tenth,
    and larger than the cost of fetching a batch outside a step.
    """
    if actual.low <= (1 + SAME) * data_only.high:
        return False
    return 1 / data_only.high - 1 / actual.low > FETCH_S


def contention(
    shortfall: Rate,
    in_sequence: float,
    *,
    cores_busy_fraction: float | None,
    gil_wait_s: float | None,
) -> Contention | None:
    """Returns how far making batches and training slow each other down; None if they do not.

    Args:
        shortfall: How far the rate of both together is below the lower of the two rates alone, as a
            share of the latter. It counts if its whole interval is above 0, and its median at least
            10 %.
        in_sequence: Sum of the times for a batch alone and a step alone, over the time of both
            together; 1 if nothing overlaps.
        cores_busy_fraction: Processor time over the time that all cores provide; None if unknown.
        gil_wait_s: Mean delay with which a Python thread resumes after a sleep; None if unknown.
    """
    if shortfall.low <= 0 or shortfall.median < SMALLEST_SHORTFALL:
        return None
    cause: ContentionCause | None = None
    if gil_wait_s is not None and gil_wait_s >= GIL_WAIT_S:
        cause = "interpreter lock"
    elif cores_busy_fraction is not None and cores_busy_fraction >= CORES_BUSY_FRACTION:
        cause = "all cores busy"
    # Two tasks that share all cores, or the GIL, take as long together as in sequence. So that
    # pattern shows that nothing is prepared ahead only if neither resource is scarce.
    elif abs(in_sequence - 1) <= SAME:
        cause = "nothing ahead"
    return Contention(shortfall, cause, cores_busy_fraction, gil_wait_s)
