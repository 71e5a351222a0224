"""What TensorFlow really has after `configure_gpus`, in processes of their own."""

from pathlib import Path

import pytest
from helpers import prepared
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
    prepared.run(case, env={**clean, "CUDA_VISIBLE_DEVICES": ""})
