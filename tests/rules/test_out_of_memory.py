"""What ended a run comes first: memory of a device for certain, of the host likely."""

from dataclasses import replace

import pytest
from helpers.findings import by_name
from helpers.findings import codes as findings
from helpers.summaries import breakdown, stall, throughput

from keras_gpukit import records
from keras_gpukit.rules import judge
from keras_gpukit.rules.whole_run.memory_ran_out import NOT_ONE_FITS, memory_options

GIB = 2**30
RUN = records.RunSummary(records.Environment({}))
RAN_OUT = records.OutOfMemory(
    "GPU:0",
    "model/conv_1/Relu",
    "conv",
    state=records.AllocatorState(2 * GIB, 16 * GIB, 15 * GIB, free_bytes=GIB),
    options=(
        records.MemoryOption("mixed precision", 20 * GIB, False, 64),
        records.MemoryOption("batch size", 12 * GIB, True, 32),
    ),
)
STALLED = stall(0.9)


def first(summary=RUN, **changes):
    return judge(replace(summary, **changes)).findings[0]


def test_running_out_of_memory_comes_in_place_of_findings_on_speed():
    validates = replace(STALLED, breakdown=breakdown(20.0, validation_s=10.0))
    summary = replace(RUN, input=validates, out_of_memory=RAN_OUT, ending="interrupted")
    assert findings(summary) == ["out-of-memory"]  # until it fits, speed is no question
    finding = first(summary)
    assert finding.title == "Layer 'conv' on GPU:0 ran out of memory"
    assert finding.advice[0].startswith("Train with batch_size=32: at most 12,288 MiB")
    assert finding.advice[1].startswith("Not enough on its own: keras_gpukit.configure_gpus(")
    figures = dict(zip(("asked for", "in use", "free", "limit"), (2, 15, 1, 16), strict=True))
    assert [*by_name(finding).items()] == [(name, of * GIB) for name, of in figures.items()]


ENDED = {"ended_by": "ValueError in step 1", "ended_kind": "error", "ending": "interrupted"}


def test_an_exception_that_ended_the_run_is_named_once():
    crashed = replace(RUN, **ENDED)
    finding = first(crashed)
    assert (finding.code, finding.severity) == ("ended-by-error", "critical")
    assert finding.title == "ValueError in step 1 ended the run"
    crashed = replace(crashed, error_message="3 classes, not 4", error_line="train.py:31")
    assert first(crashed).title == (
        "ValueError in step 1 (train.py:31) ended the run: 3 classes, not 4"
    )
    of_input, preempted = (first(crashed, ended_kind=kind) for kind in ("input", "signal"))
    assert of_input.advice[0].startswith("Read the data without training")
    assert preempted.advice[0].startswith("Start it again where it ended")
    for otherwise in ({"out_of_memory": RAN_OUT}, {"ended_kind": "stopped"}):
        assert "ended-by-error" not in findings(replace(crashed, **otherwise))
    assert "ended-by-error" in judge(replace(RUN, ending="interrupted")).not_applicable
    assert "ended-by-error" in judge(replace(RUN, ending="completed")).passed


def test_a_killed_run_says_so_first_and_what_it_was_doing():
    validating = records.Progress("fit", "validation", 300, 2, 5)
    killed = replace(RUN, input=STALLED, throughput=throughput(steps=300), killed_in=validating)
    assert findings(killed)[:2] == ["killed", "input-bound"]
    title = "The process was killed while validating after step 300, in epoch 2 of 5"
    assert first(killed).title == title
    full = records.HostSample(memory_available_bytes=1, memory_total_bytes=100)
    assert findings(replace(killed, host_at_end=full))[:2] == ["host-out-of-memory", "input-bound"]


@pytest.mark.parametrize(
    ("ended", "found"),
    [
        (ENDED, ["ended-by-error"]),
        (
            {"killed_in": records.Progress("fit", "first step", 0)},
            ["killed", "first-step-not-over"],
        ),
        ({**ENDED, "ended_kind": "stopped"}, ["first-step-not-over"]),
        ({}, ["first-step-not-over", "memory-nearly-full"]),  # it goes on
    ],
)
def test_a_run_that_never_stepped_gets_no_advice_on_speed_or_memory(ended, found):
    gpu = records.GPUInfo(0, "a GPU")
    memory = records.MemoryRecord((records.DeviceMemory("GPU:0", GIB, 19 * GIB, 20 * GIB),))
    environment = records.Environment({}, gpus=(gpu,))
    tracing = replace(RUN, environment=environment, memory=memory, first_step_s=60)
    assert findings(replace(tracing, **ended)) == found


def test_what_other_processes_hold_is_evidence_and_advice():
    record = replace(RAN_OUT, holders=(records.GPUHolder(7, 3 * GIB), records.GPUHolder(8, GIB)))
    finding = first(out_of_memory=record)
    assert by_name(finding)["held by other processes"] == 4 * GIB
    assert finding.advice[-1].startswith("End the other processes")
    # That free memory is in pieces is said first.
    pieces = {"free_bytes": 4 * GIB, "largest_free_bytes": GIB}
    state = records.AllocatorState(2 * GIB, 16 * GIB, 12 * GIB, **pieces)
    finding = first(out_of_memory=replace(RAN_OUT, state=state))
    assert finding.title == "Layer 'conv' on GPU:0 ran out of memory: the free memory is fragmented"
    assert "TF_GPU_ALLOCATOR=cuda_malloc_async" in finding.advice[0]
    assert by_name(finding)["largest free block"] == GIB


@pytest.mark.parametrize("code", ["out-of-memory", "host-out-of-memory", "killed"])
def test_a_run_that_ended_otherwise_passes_and_one_that_goes_on_is_not_judged(code):
    assert code in judge(replace(RUN, ending="completed")).passed
    assert code in judge(RUN).not_applicable


@pytest.mark.parametrize(
    ("figures", "found"),
    [
        ({"memory_available_bytes": 9, "memory_total_bytes": 100}, True),
        ({"memory_available_bytes": 11, "memory_total_bytes": 100}, False),
        ({"memory_limit_used_bytes": 91, "memory_limit_bytes": 100}, True),
        ({"memory_limit_used_bytes": 89, "memory_limit_bytes": 100}, False),
        ({}, None),
    ],
)
def test_a_killed_run_likely_ran_out_of_host_memory_where_that_was_nearly_full(figures, found):
    verdict = judge(replace(RUN, host_at_end=records.HostSample(**figures)))
    assert ("host-out-of-memory" in [each.code for each in verdict.findings]) is bool(found)
    assert ("host-out-of-memory" in verdict.not_applicable) is (found is None)


def test_each_way_to_need_less_has_its_figure():
    def options(precision, fitting, allowed_bytes):
        return memory_options(
            records.MemoryByCause(weights_bytes=100, activations_bytes=1000, gradients_bytes=200),
            batch_size=64,
            fitting=fitting,
            accumulating=fitting,
            trainable_bytes=90,
            precision=precision,
            allowed_bytes=allowed_bytes,
        )

    smaller = records.MemoryByCause(weights_bytes=100, activations_bytes=250, gradients_bytes=50)
    made = options("float32", (16, smaller), 900)
    assert [(each.kind, each.needs_bytes, each.fits) for each in made] == [
        ("batch size", 400, True),
        ("accumulation", 490, True),
        ("mixed precision", 100 + 50 + 840, False),
        ("rematerialization", 900, True),
    ]
    assert made[1].note == "4 micro-batches per update"
    [mixed] = options("mixed_float16", None, None)
    assert (mixed.kind, mixed.fits) == ("rematerialization", None)


TRIPLES = records.OutOfMemory(
    "CPU:0",
    "compile_loss/batch_all/LogicalAnd",
    shape=(3600, 3600, 3600),
    dtype="bool",
    state=records.AllocatorState(3600**3),
    batch_size=3600,
    part="validation",
    role="loss",
    function="batch_all",
    line="train.py:35",
    batches_given=False,
    training_batch_size=96,
)


def ran_out(record=TRIPLES, **changes):
    return first(out_of_memory=replace(record, **changes))


def test_a_validation_that_ran_out_is_not_advised_to_train_with_less():
    found = ran_out()
    assert found.title == (
        "Validation ran out of memory on CPU:0: the loss 'batch_all' (train.py:35) asked for "
        "[3600, 3600, 3600], 43.5 GiB; the batch has 3,600 examples"
    )
    assert found.advice == (
        "fit(validation_batch_size=96): training's batches of that size did fit (half the batch "
        "needs 1/8 of this tensor)",
    )
    # A prediction in a callback has the callback's line.
    found = ran_out(
        RAN_OUT, part="prediction", in_callback=True, line="train.py:50", shape=(64, 9), options=()
    )
    assert found.title == (
        "Prediction in a callback (train.py:50) ran out of memory on GPU:0: layer 'conv' asked "
        "for [64, 9], 2 GiB"
    )


@pytest.mark.parametrize(
    ("changes", "advice"),
    [
        ({"training_batch_size": 3600}, "a smaller validation_batch_size than 3,600 in fit"),
        ({"batches_given": True}, "Make the batches of validation_data smaller than 3,600"),
        ({"part": "prediction"}, "predict(batch_size=32), Keras' default"),
        ({"part": "evaluation", "batch_size": None}, "evaluate(batch_size=32), Keras' default"),
        ({"part": "prediction", "batch_size": 16}, "a smaller batch_size than 16 in predict"),
        ({"part": None, "in_callback": True}, "Take fewer examples at a time in the callback"),
        ({"part": "training"}, "Train with a smaller batch"),
        (
            {"part": "training", "options_unknown_because": NOT_ONE_FITS},
            "A smaller tensor in the loss 'batch_all' (train.py:35): not even one example is "
            "predicted to fit",
        ),
    ],
)
def test_the_advice_fits_the_part_that_ran_out(changes, advice):
    assert ran_out(**{"shape": (3600, 7), **changes}).advice == (advice,)


MIB = 2**20
IN_PREDICT = records.ScriptError(
    "ResourceExhaustedError", "OOM", "a.py:9", "predict", 60, 75, "CPU:0", MIB
)
KEPT = records.Kept("kept", "CPU:0", 380 * MIB, "a.py", 95)
OF_KEPT = records.ScriptError(
    *("ResourceExhaustedError", "OOM", "a.py:9", None, None, None, "CPU:0", MIB, KEPT, "a.py:12")
)


@pytest.mark.parametrize(
    ("error", "title", "advice"),
    [
        (
            IN_PREDICT,
            "The script ran out of memory on CPU:0 in predict (a.py:9) after 60 of 75 batches: "
            "predict keeps the results of all batches on the device until it ends",
            "Call predict for a part of the data at a time",
        ),
        (
            replace(IN_PREDICT, batches_done=0),
            "The script ran out of memory on CPU:0 in predict (a.py:9): asked for 1 MiB",
            "A smaller batch_size in predict",
        ),
        (
            OF_KEPT,
            "The script ran out of memory on CPU:0: kept (a.py:12) keeps 95 results on the device, "
            "380 MiB",
            "Keep NumPy arrays",
        ),
    ],
)
def test_what_took_the_memory_outside_fit_is_said_first(error, title, advice):
    found = first(ending="completed", script=records.ScriptRecord(30.0, 9.0, 2.0, ended_by=error))
    assert (found.code, found.title) == ("out-of-memory", title)
    assert found.advice[0].startswith(advice)


@pytest.mark.parametrize(
    ("changes", "title", "advice"),
    [
        (
            {"batch_size": 16, "varying_length": 52_000},
            "16 examples, of a length (52,000) that varies; the batches before did fit",
            "One long example makes all examples of its batch as long: cut it (x[:n])",
        ),
        (
            {"batch_size": 2400, "usual_batch_size": 32},
            "the batch has 2,400 examples, those before had 32",
            "The data make batches of different sizes: cut the large ones into batches of 32",
        ),
        ({"of_weights": True}, "", "Weights of layer 'conv' have this size"),
    ],
)
def test_a_smaller_batch_is_not_advised_where_it_is_not_the_cause(changes, title, advice):
    found = ran_out(RAN_OUT, part="training", shape=(2400, 9), **changes)
    assert found.title.endswith(title)
    assert found.advice[0].startswith(advice)
    assert "maller batch" not in " ".join(found.advice[1:])
