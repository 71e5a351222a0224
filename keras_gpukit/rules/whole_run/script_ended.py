"""Words for the exception that ended a script, and advice about it."""

from __future__ import annotations

from keras_gpukit.records.script import ScriptError

_PARTS = (
    "Call `predict` for a part of the data at a time and keep only what is needed of each result, "
    "such as `.argmax(-1)`",
    "Or let the model return less: its last layers can reduce the results on the device",
)
_KEPT = (
    "Keep NumPy arrays, which are in the host's memory: `append(result.numpy())`, and "
    "`float(loss)` of a loss",
    "Or keep only the few results that are needed",
)


def title(error: ScriptError) -> str:
    """Says what ended the script, where, and what took the memory if it ran out."""
    at = f" ({error.line})" if error.line else ""
    during = f" in {error.method}" if error.method else ""
    if error.device is None:
        return f"{error.kind}{during}{at} ended the script: {error.message}"
    ran_out = f"The script ran out of memory on {error.device}{during}"
    if _keeps_results(error):
        of = f" of {error.batches:,}" if error.batches else ""
        return (
            f"{ran_out}{at} after {error.batches_done:,}{of} batches: predict keeps the results of "
            "all batches on the device until it ends"
        )
    if error.kept is not None:
        adds = f" ({error.kept_line})" if error.kept_line else ""
        return (
            f"{ran_out}: {error.kept.name}{adds} keeps {error.kept.length:,} results on the "
            f"device, {error.kept.size_bytes / 2**20:,.0f} MiB"
        )
    asked = error.asked_bytes
    return ran_out + at + (f": asked for {asked / 2**20:,.0f} MiB" if asked else "")


def advice(error: ScriptError) -> tuple[str, ...]:
    """Returns ways to avoid the exception."""
    if error.device is None:
        return ("The script's traceback shows the cause",)
    if _keeps_results(error):
        return _PARTS
    if error.kept is not None:
        return _KEPT
    call = f"`batch_size` in `{error.method}`" if error.method else "batch on that line"
    return (f"A smaller {call}",)


def _keeps_results(error: ScriptError) -> bool:
    return error.method == "predict" and bool(error.batches_done)
