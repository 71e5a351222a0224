"""Remedies for errors of TensorFlow's profiler."""

from __future__ import annotations

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
