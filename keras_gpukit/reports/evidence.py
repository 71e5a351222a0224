"""The evidence of a finding, in sentences, and its advice, with code apart from words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from keras_gpukit.records.finding import Advice, Finding
from keras_gpukit.reports import units
from keras_gpukit.reports.phrases import saved

SENTENCES = {
    # The wait for input.
    "input_stall": "Steps spend {value} of their time waiting for input",
    "input_stall_at_most": "Steps spend at most {value} of their time waiting for input",
    "at_most": ", at most {value}",
    "after_the_first_epoch": ", after the first epoch {value}",
    "wait_per_step": "A step waits {value} for its batch",
    "earlier_input_wait": "The input wait was {value} before",
    "a_stall_every": "A stall comes every {value}",
    "batches_in_the_buffer": "The buffer holds {value} batches on average",
    "time_per_batch_of": "{of} takes {value} per batch",
    "earlier_time_per_batch_of": "{of} took {value} per batch before",
    "time_per_start_of": "{of} takes {value} per start",
    "elements_made_by": "{of} makes {value} elements",
    "of_them_used": ", {value} of them are used",
    "of_the_stages_time_filling_the_cache": "Filling the cache takes {value} of the stages' time",
    "busy_of": ", {value} of {of} busy",
    "in_parallel": ", {value} in parallel",
    "parallel_calls_asked_for": ", although {value} parallel calls are asked for",
    "wait_for_the_GIL": "A thread waits {value} for the GIL",
    "of_it_making_batches": ", {value} of them with making batches",
    # Time.
    "of_the_time": "This takes {value} of the run's time",
    "of_the_time_without_the_first_step": "This takes {value} of the run's time without its first "
    "step",
    "of_the_time_in": "{value} of the run's time is spent in {of}",
    "time_of": "{of}: {value} of the time",
    "compute": "Computing takes {value}",
    "start_of_an_epoch": "An epoch takes {value} to start",
    "of_it_waiting_for_the_first_batch": ", {value} of it to wait for the first batch",
    "longest_wait_for_a_first_batch": ", the longest wait for a first batch took {value}",
    "of_it_filling_the_shuffle_buffer": ", {value} of it to fill the shuffle buffer",
    "of_it_waiting_for_input": ", {value} of it waiting for input",
    "steps_of_validation": ", in {value} steps",
    "earlier_between_steps": "Between steps, {value} passed before",
    "in_callbacks": ", {value} in callbacks",
    "time_in": "{of} takes {value} of it",
    "step_time": "A step takes {value}",
    "of_each_step_eager": ", {value} of it in operations started from Python",
    "time_on_the_line": "The line takes {value}",
    "of_the_script": ", {value} of the script",
    "steps": "The loop ran {value} steps",
    "recorded": "The profiler recorded for {value}",
    "stop_took": ", and its stop() took {value}",
    "earlier_step_time": "The step time was {value} before",
    "after": ", {value} after",
    "of_the_steps_time_lost": "{value} of the steps' time is lost by it",
    "steps_measured": ", the mean of {value} steps",
    "of_each_step": "They take {value} of each step",
    "share_of": ", {of} {value}",
    "calls": "There are {value} calls",
    "of_each_to_start": ", each takes {value} to start",
    "of_each_in_all": ", {value} in all",
    "hangs": "{value} times no step ended for a minute or more",
    "longest": ", the longest for {value}",
    "after_step": ", after step {value}",
    "in_the_first_step": "The first step has lasted {value}",
    "GPU_utilization": ", with the GPU {value} busy",
    "traced_again": "The step was traced again {value}",
    "compiled_again_by_XLA": "XLA compiled a program {value}",
    "per_compilation": "One compilation takes {value}",
    "skipped_of": "Loss scaling skipped {value} of {of}",
    "loss_scale_at_the_end": "The loss scale is {value} at the end",
    # Memory.
    "memory_used_at_most": "At most {value} of their memory is used",
    "peak_use_of": "{of} uses {value} of its memory at most",
    "memory_held_by_others_on": "Other processes use {value} of the memory of {of}",
    "first_step_on": "On {of} the first step took {value}",
    "later_steps_at_most": "Later steps took at most {value}",
    "each_epoch_adds": "Each epoch adds {value}",
    "each_fit_adds": "Each fit adds {value}",
    "per_thousand_steps": "Every 1,000 steps add {value}",
    "at_first": "At first, {value} were in use",
    "in_the_end": ", in the end {value}",
    "left": "{value} are left",
    "kept_in": "{of} keeps {value} of tensors or arrays",
    "items_of": "{of} has {value} items",
    "models_alive": "{value} models are alive",
    "variables_of_these_models_and_optimizers": "Their variables and optimizers hold {value}",
    "full_size_of": "{of} holds {value} when it is full",
    "still_to_come": "{value} of it are still to come",
    "free_host_memory": "The host has {value} free",
    "asked_for": "An operation asked for {value}",
    "in_use": ", {value} were in use",
    "in_use_at_most": ", at most {value} were in use",
    "free": ", {value} were free",
    "free_at_least": ", at least {value} were free",
    "largest_free_block": ", {value} of that in one block",
    "held_by_other_processes": ", other processes hold {value}",
    "machine_memory_in_use": "{value} of the machine's memory is in use",
    "container_limit_in_use": "{value} of the container's memory limit is in use",
    # The machine.
    "cores_busy": "All cores together are {value} busy",
    "cores_that_this_process_keeps_busy": "This process keeps {value} of all cores busy",
    "this_process": ", this process {value}",
    "other_processes_of_the_job": ", other processes of the job {value}",
    "page_faults_per_step": "A step has {value} page faults",
    "of_the_CPU_time_in_the_kernel": "{value} of the CPU time is spent in the kernel",
    "kernel_time_per_fault": ", {value} per fault",
    "CPU_use_of": "{of} uses {value} of all cores",
    "earlier_CPU_used_by_other_processes": "Other processes used {value} of all cores before",
    "earlier_clock_of": "The clock of {of} was {value} before",
    "GPUs_busy": "The GPUs are busy {value} of the time",
    "busy_time_of": "{of} is busy {value} of the time",
    "readings_with": "{value} of the readings show {of}",
    "compute_capability": "The GPU's compute capability is {value}",
    "of_a_step_in_products_and_convolutions": "{value} of a step are products and convolutions",
    "of_a_step_waiting_for_launches": "{value} of a step are waits for launches",
    "of_a_step_that_the_GPU_idles_between_steps": "The GPU idles {value} of a step between steps",
    "operations_on_the_CPU": "{value} operations run on the CPU",
    "kernels_per_step": "A step runs {value} kernels",
    "mean_time_of_a_kernel": ", {value} each on average",
    "of_them_in": ", {value} of them in {of}",
    "of_a_step_in_kernels_that_XLA_fuses": "{value} of a step are kernels that XLA would fuse",
    "share_of_the_GPU_time_in": "Those of {of} take {value} of the GPU time",
    "of_the_GPU_time_in": "{value} of the GPU time are in {of}",
    "of_a_step_in_these_kernels": "These kernels take {value} of a step",
    "of_them_per_step": ", {value} of them per step",
    "of_a_step_in_the_optimizer": "The optimizer takes {value} of a step",
    "of_the_rows_at_most_in_a_batch": "A batch uses at most {value} of the rows",
    "dense_products_slower_by": "Dense products take {value} the time of float32",
    "of_a_step_in_layers_in_float32": "Layers in float32 take {value} of a step",
    "of_a_step_in_casts_between_layers": "Casts between layers take {value} of a step",
    "of_a_step_in_metrics": "Metrics take {value} of a step",
    "of_a_step's_kernels": ", and run {value} of its kernels",
    "of_a_step_in_Python_functions": "Python functions take {value} of a step",
    "of_a_step_in_copies_to_the_GPU": "While copies to the GPU run, it idles for {value} of a step",
    "copied_to_the_GPU_per_step": "A step copies {value}",
    "of_the_computation": "{of} takes {value} of the computation",
    "of_it_in": ", {value} of it {of}",
    "of_it_backward": ", {value} of it in the backward pass",
    "layers": "{value} layers are of the kind {of}",
    "operations_of": "{value} {of} operations are affected",
    "data_of": "{of} takes and returns {value}",
    "copies_between_devices_per_step": "Each step copies {value} times between devices",
    "bytes_copied_per_step": ", {value} in all",
    # Several workers or replicas.
    "delay_of": "In the median step, {of} arrives {value} after the last of the others",
    "of_a_step_of": ", of a step of {value}",
    "input_wait_of": "The input wait of {of} takes {value} of its step",
    "compute_of": "The compute of {of} takes {value} of its step",
    "time_to_arrive_of": "The time to arrive of {of} takes {value} of its step",
    "of_the_others": ", that of the others {value}",
    "steps_compared": ", over {value} steps that were compared",
    "round_trip_to": "A round trip to {of} takes {value}",
    "among_the_others": ", one among the others {value}",
    "exchange_in_a_step": "Exchanging gradients takes {value} of a step",
    "that_is": ", that is {value}",
    "examples_of": "{of} trained on {value} examples",
    "examples_per_replica_and_step": "Each replica gets {value} examples a step",
    "replicas": ", with {value} replicas",
    "workers": "The job has {value} workers",
}
"""A sentence for each key of a figure; one that begins with a comma goes on with the last one."""


class Words(NamedTuple):
    """A part of a line of advice: code, or text without code."""

    text: str
    is_code: bool


def evidence_sentences(finding: Finding) -> tuple[str, ...]:
    """Returns a finding's figures in sentences, such as "A step waits 10 ms for its batch."."""
    sentences: list[str] = []
    for figure in finding.evidence:
        words = SENTENCES.get(figure.key, "{name}: {value}")
        clause = words.format(value=units.measured(figure), of=figure.of, name=figure.name)
        if clause.startswith(",") and sentences:
            sentences[-1] += clause
        else:
            sentences.append(clause.removeprefix(", "))
    return tuple(f"{sentence}." for sentence in sentences)


def in_one_line(finding: Finding) -> str:
    """Returns a finding's figures, and the saving from fixing it, in sentences on one line."""
    saving = [] if finding.saving is None else [f"Fixing it saves {saved(finding.saving)}."]
    return " ".join((*evidence_sentences(finding), *saving))


def advice_of(finding: Finding) -> tuple[tuple[Words, ...], ...]:
    """Returns each line of a finding's advice as its parts: words and code in turn."""
    actions = finding.actions or tuple(map(Advice, finding.advice))
    return tuple(tuple(_parts(each)) for each in actions)


def _parts(advice: Advice) -> Iterator[Words]:
    rest = advice.text
    for code in advice.code:
        before, _, rest = rest.partition(code)
        yield from (Words(before, False), Words(code, True))
    yield Words(rest, False)
