"""The evidence of a finding, in sentences."""

from __future__ import annotations

import re

from keras_gpukit.records.finding import Figure, Finding
from keras_gpukit.reports import units

# `_SENTENCES` has a sentence per figure name; `_ADDED` has words that extend the previous sentence.
# A figure that neither of them nor `_PATTERNS` covers is shown as its name and value.
_SENTENCES = {
    "input stall": "Steps spend {value} of their time waiting for input",
    "input stall, at most": "Steps spend at most {value} of their time waiting for input",
    "input stall at first": "At first, steps spend {value} of their time waiting for input",
    "wait per step": "A step waits {value} for its batch",
    "wait for the GIL": "A thread waits {value} for the GIL",
    "a stall every": "A stall comes every {value}",
    "of the time": "This takes {value} of the run's time",
    "start of an epoch": "An epoch takes {value} to start",
    "between steps before": "Between steps, {value} passed before",
    "step time": "A step takes {value}",
    "of each step": "They take {value} of each step",
    "calls": "There are {value} calls",
    "hangs": "{value} times no step ended for a minute or more",
    "compiled again by XLA": "XLA compiled a program {value}",
    "per compilation": "One compilation takes {value}",
    "models alive": "{value} models are alive",
    "variables of these models and optimizers": "Their variables and optimizers hold {value}",
    "loss scale at the end": "The loss scale is {value} at the end",
    "cores busy": "All cores together are {value} busy",
    "cores that this process keeps busy": "This process keeps {value} of all cores busy",
    "copies between devices per step": "Each step copies {value} times between devices",
    "traced again": "The step was traced again {value}",
    "compute": "Computing takes {value}",
    "of the steps' time lost": "{value} of the steps' time is lost by it",
    "exchange in a step": "Exchanging gradients takes {value} of a step",
    "examples per replica and step": "Each replica gets {value} examples a step",
    "GPUs busy": "The GPUs are busy {value} of the time",
    "memory used at most": "At most {value} of their memory is used",
    "each epoch adds": "Each epoch adds {value}",
    "at first": "At first, {value} were in use",
    "left": "{value} are left",
    "still to come": "{value} of it are still to come",
    "free host memory": "The host has {value} free",
    "asked for": "An operation asked for {value}",
    "compute capability": "The GPU's compute capability is {value}",
}
_ADDED = {
    "in parallel": "{value} in parallel",
    "of each to start": "each takes {value} to start",
    "of each in all": "{value} in all",
    "longest": "the longest for {value}",
    "after step": "after step {value}",
    "parallel calls asked for": "although {value} parallel calls are asked for",
    "in use": "{value} were in use",
    "in use, at most": "at most {value} were in use",
    "free": "{value} were free",
    "free, at least": "at least {value} were free",
    "largest free block": "{value} of that in one block",
    "in the end": "in the end {value}",
    "after": "{value} after",
    "after the first epoch": "after the first epoch {value}",
    "of it waiting for the first batch": "{value} of it to wait for the first batch",
    "of it waiting for input": "{value} of it waiting for input",
    "of it filling the shuffle buffer": "{value} of it to fill the shuffle buffer",
    "in callbacks": "{value} in callbacks",
    "bytes copied per step": "{value} in all",
    "of it making batches": "{value} of them with making batches",
    "of a step of": "of a step of {value}",
    "of the others": "that of the others {value}",
    "among the others": "one among the others {value}",
    "that is": "that is {value}",
    "steps compared": "over {value} steps that were compared",
    "replicas": "with {value} replicas",
    "most seen later": "later at most {value}",
    "in readings": "in {value} readings",
    "a step predicted to need at most": "a step was predicted to need {value} at most",
    "this process": "this process {value}",
    "other processes": "other processes {value}",
    "steps measured": "the mean of {value} steps",
}
_PATTERNS = {
    r"of the time in (?P<what>.+)": "{value} of the time is spent in {what}",
    r"(?P<what>.+) per batch before": "{what} took {value} per batch before",
    r"CPU used by other processes before": "Other processes used {value} of all cores before",
    r"(?P<what>.+ \(pid \d+\))": "{what} uses {value} of all cores",
    r"(?P<what>.+) before": "The {what} was {value} before",
    r"(?P<what>.+) per batch": "{what} takes {value} per batch",
    r"(?P<what>GPU:\d+) busy": "{what} is busy {value} of the time",
    r"peak use of (?P<what>.+)": "{what} uses {value} of its memory at most",
    r"memory of (?P<what>.+) held by others": "other processes use {value} of the memory of {what}",
    r"readings of (?P<what>GPU:\d+) with (?P<reason>.+)": "{value} of the readings of {what} show "
    "{reason}",
    r"(?P<what>(worker|replica) \d+) is last by": "In the median step, {what} arrives {value} "
    "after the last of the others",
    r"round trip to (?P<what>worker \d+)": "A round trip to {what} takes {value}",
    r"(?P<part>input wait|compute|time to arrive) of (?P<what>.+)": "The {part} of {what} takes "
    "{value} of its step",
    r"examples of (?P<what>.+)": "{what} trained on {value} examples",
    r"(?P<what>.+) when full": "{what} holds {value} when it is full",
    r"first step on (?P<what>.+)": "On {what} the first step took {value}",
    r"kept in (?P<what>.+)": "{what} keeps {value} of tensors or arrays",
    r"of (?P<due>.+) updates, skipped by loss scaling": "Loss scaling skipped {value} of {due} "
    "updates",
    r"(?P<what>.+) of each step": "{what} takes {value} of each step",
    r"in (?P<what>\w+)": "{what} takes {value} of it",
    r"(?P<what>\w+) operations": "{value} {what} operations are affected",
}


def evidence_sentences(finding: Finding) -> tuple[str, ...]:
    """Returns a finding's figures in sentences, such as "A step waits 10 ms for its batch."."""
    sentences: list[str] = []
    for figure in finding.evidence:
        value = units.measured(figure)
        if figure.name in _ADDED and sentences:
            sentences[-1] += f", {_ADDED[figure.name].format(value=value)}"
        else:
            sentences.append(_sentence(figure, value))
    return tuple(f"{sentence}." for sentence in sentences)


def _sentence(figure: Figure, value: str) -> str:
    if figure.name in _SENTENCES:
        return _SENTENCES[figure.name].format(value=value)
    for pattern, sentence in _PATTERNS.items():
        if found := re.fullmatch(pattern, figure.name):
            return sentence.format(value=value, **found.groupdict())
    return f"{figure.name}: {value}"
