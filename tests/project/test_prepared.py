"""Scripts in forks of a process with TensorFlow: as in a new interpreter, and as strict."""

import json
import signal
import subprocess

import pytest
from helpers import prepared
from helpers.processes import environment

pytestmark = pytest.mark.tensorflow

SHOW = """
import json, os, sys
from keras_gpukit.frameworks.tf_runtime import is_initialized
shown = [__name__, sys.argv[1:], sys.path[0], os.environ["GIVEN"], is_initialized()]
print(json.dumps([*shown, {"keras", "tensorflow"} <= set(sys.modules), sorted(globals())]))
"""


def test_a_script_runs_as_in_a_new_interpreter(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SHOW)
    done = prepared.run(script, "--x", 1, env=environment(GIVEN="it is"))
    *shown, is_loaded, names = json.loads(done.stdout)
    assert shown == ["__main__", ["--x", "1"], str(tmp_path), "it is", False]
    assert is_loaded
    assert not {"serve", "socket", "keras"} & set(names)  # of the process that waited


def test_a_script_that_fails_fails_its_test(run_script):
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        run_script("1 / 0")
    with pytest.raises(AssertionError, match="said"):
        run_script("import sys; print('said', file=sys.stderr); sys.exit(3)")
    with pytest.raises(subprocess.TimeoutExpired):
        run_script("import time; time.sleep(100)", timeout=0.5)


def test_what_kills_a_script_is_its_status(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import time; time.sleep(100)")
    process = prepared.Prepared(script, env=environment(), stdout=1, stderr=2)
    assert process.poll() is None
    process.kill()
    assert process.wait(20) == -signal.SIGKILL
    assert process.poll() == -signal.SIGKILL
