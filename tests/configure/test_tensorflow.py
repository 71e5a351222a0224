"""What TensorFlow really has after `configure_gpus`, in processes of their own."""

import subprocess
import sys
from pathlib import Path

import pytest
from helpers.processes import environment

pytestmark = pytest.mark.tensorflow

CASES = sorted(
    path for path in (Path(__file__).parent / "cases").glob("*.py") if path.name != "stand_in.py"
)


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_tensorflow_has_what_was_asked(case):
    clean = {
        k: v for k, v in environment().items() if not k.startswith(("TF_", "CUDA_", "NVIDIA_"))
    }
    # Where there are real GPUs, the stand-ins are to be the only ones.
    clean["CUDA_VISIBLE_DEVICES"] = ""
    done = subprocess.run(
        [sys.executable, case],
        env={**clean, "TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": "tensorflow"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
