"""Records in notebooks: what the terminal shows, as HTML."""

import re
from html import unescape

import pytest
from helpers.pages import Page
from rich.console import Console

from keras_gpukit.configure.plan import Plan
from keras_gpukit.configure.setup import GPUSetup
from keras_gpukit.records import (
    Action,
    Cause,
    Contention,
    Diagnosis,
    Environment,
    Figure,
    Finding,
    GPUInfo,
    Rate,
    RunSummary,
    TensorFlowState,
    ThroughputRecord,
    Trial,
    TuningRecord,
    Verdict,
)
from keras_gpukit.reports import console, rates, searches
from keras_gpukit.tuning.tune_input import TunedInput

NAME = "<b>[bold]a & b"
RATE = Rate(100.0, 90.0, 110.0)
FOUND = Finding(
    *("input-bound", f"Steps wait for {NAME}", "critical", (Figure("input_stall", 78.4, "%"),)),
    ("first advice", "second advice"),
)
SUMMARY = RunSummary(
    Environment({}),
    throughput=ThroughputRecord("fit", 1200, 1180, 0.0241, 1327.0),
    ending="completed",
    verdict=Verdict((FOUND,)),
)
DIAGNOSIS = Diagnosis(
    RATE, RATE, RATE, 1.5, Rate(1.5, 1.4, 1.6, ""), Contention(RATE, None, None, None), (), 32.0
)
MAP = Trial("parallel-map", f"{NAME} in parallel", 1.5, 1.4, 1.6, kept=True)
TUNING = TuningRecord(
    *((MAP,), RATE, RATE, None, 1.5, 1.4, 1.6, (f"cache {NAME}",), "nothing left to try", 12.0)
)
SETUP = GPUSetup(
    (GPUInfo(0, NAME, "GPU-0", 40 << 30, (8, 0)),),
    Plan(actions=(Action("memory_growth", True, f"because of {NAME}", gpus=(0,)),)),
    TensorFlowState(visible_gpus=(0,), growth=(True,), memory_limit_mib=(None,)),
    ("a warning",),
)
WITHOUT_GPU = GPUSetup(
    (),
    Plan(causes=(Cause("no_driver", "No driver.", "Install it."),)),
    TensorFlowState(visible_gpus=(), growth=(), memory_limit_mib=()),
)
SHOWN = {
    "summary": (SUMMARY, console.render),
    "nothing measured": (RunSummary(Environment({})), console.render),
    "diagnosis": (DIAGNOSIS, rates.diagnosis_view),
    "tuning": (TUNING, searches.tuning_view),
    "tuned": (TunedInput(None, "ds = ds.map(f)  # <b>", TUNING), TunedInput.__rich__),
    "setup": (SETUP, GPUSetup.__rich__),
    "no GPU": (WITHOUT_GPU, GPUSetup.__rich__),
}


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


@pytest.mark.parametrize(("record", "render"), SHOWN.values(), ids=SHOWN)
def test_a_notebook_shows_what_a_terminal_does(record, render):
    html = record._repr_html_()
    with (terminal := Console(width=100)).capture() as printed:
        terminal.print(render(record))
    assert words(unescape(re.sub("<[^>]*>", " ", html))) == words(printed.get())
    if record is SUMMARY:
        assert 'style="opacity: 0.75' in html  # dim text, legible on light and dark pages
    Page(html)  # fails on a tag that is not closed, or not in order
    assert "<b>[bold]" not in html  # a name is no markup
    if NAME in printed.get():
        assert "&lt;b&gt;[bold]a &amp; b" in html
