"""`keras-gpukit run` against Python itself: whatever a script can see or return is the same.

No script here imports a framework, so that a process takes a moment.
"""

import os
import re
import signal
import subprocess
import sys
from textwrap import dedent

import pytest

from keras_gpukit.cli.main import main

RUN = (sys.executable, "-m", "keras_gpukit", "run")
SCRIPTS = {
    "seen": """
        import atexit, sys
        print(sys.argv, sys.path, __file__, __name__, __package__, __spec__, type(__loader__))
        print(list(globals()), type(__builtins__), sys.modules["__main__"].__dict__ is globals())
        print(sys.stdin.read())
        print({"rich", "msgspec", "numpy", "keras"} & sys.modules.keys())
        atexit.register(lambda: print("exit handler of", __name__))
        """,
    "pickles": """
        import multiprocessing, pickle

        class Number:
            def __init__(self, value):
                self.value = value

        def double(number):
            return Number(2 * number.value)

        if __name__ == "__main__":
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print([each.value for each in pool.map(double, [Number(1), Number(2)])])
            print(pickle.loads(pickle.dumps(Number(3))).value)
        """,
    "raises": """
        def fail():
            try:
                {}["key"]
            except KeyError as error:
                raise ValueError("a cause and a context") from error

        fail()
        """,
    "raises in its own hook": """
        import sys, traceback

        def show(kind, error, trace):
            print("".join(traceback.format_exception(kind, error, trace)))

        sys.excepthook = show
        1 / 0
        """,
    "no python": "a = ",
    "exits with a number": "raise SystemExit(5)",
    "exits with a message": "import sys; sys.exit('because')",
    "ends at once": "import os; os._exit(7)",
    "thread outlives the script": "import threading, time\n"
    "threading.Thread(target=lambda: (time.sleep(0.2), print('from the thread'))).start()",
    "interrupted": "import os, signal; os.kill(os.getpid(), signal.SIGINT)",
    "terminated": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
}
CODES = {"exits with a number": 5, "ends at once": 7}
CODES |= dict.fromkeys(("raises", "raises in its own hook", "no python", "exits with a message"), 1)
CODES |= {"interrupted": -signal.SIGINT, "terminated": -signal.SIGTERM}

# What `run` says at the very end of a script that ended without an exception.
SENTENCES = re.compile(
    rb"keras-gpukit run: this script loaded no Keras, so nothing was monitored\.\n"
    rb"(1 Python process was started by multiprocessing\.Pool \(script\.py:\d+\).*\n)?\Z"
)


def ended(folder, *commands):
    """What came of commands that run side by side: exit code, standard output, standard error."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    running = [subprocess.Popen(each, cwd=folder, env=env, **pipes) for each in commands]
    try:
        printed = [each.communicate(b"from stdin", timeout=60) for each in running]
    finally:
        for each in running:
            each.kill()  # does nothing to one that has ended
    return [(each.returncode, *both) for each, both in zip(running, printed, strict=True)]


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_ends_as_under_python(tmp_path, name):
    (tmp_path / "script.py").write_text(dedent(SCRIPTS[name]))
    arguments = ("script.py", "--", "--log-dir", "-m", "x y")
    python, ours = ended(tmp_path, (sys.executable, *arguments), (*RUN, *arguments))
    assert python[0] == CODES.get(name, 0)
    assert (*ours[:2], SENTENCES.sub(b"", ours[2])) == python
    assert not (tmp_path / "logs").exists()  # nothing was monitored


@pytest.mark.parametrize(
    "arguments",
    [("-m", "package", "-m", "--log-dir"), ("-m", "package.part", "--"), ("package", "x")],
)
def test_modules_and_folders_run_as_under_python(tmp_path, arguments):
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    for name in ("__main__.py", "part.py"):
        names = "sys.argv, sys.path, __name__, __package__, __spec__.name"
        (package / name).write_text(f"import sys\nprint({names})\n1 / 0\n")
    python, ours = ended(tmp_path, (sys.executable, *arguments), (*RUN, *arguments))
    assert ours == python


def test_the_verdict_leaves_an_interrupt_an_interrupt(tmp_path):
    (tmp_path / "script.py").write_text("raise KeyboardInterrupt")
    command = f"""if True:
        import atexit
        from keras_gpukit.scripts import main_module
        atexit.register(main_module.keep_interrupted)
        atexit.register(lambda: exec("1"))  # as modules do that the report imports
        main_module.run_main({str(tmp_path / "script.py")!r}, None, [])"""
    [(code, _, _)] = ended(tmp_path, (sys.executable, "-c", command))
    assert code == -signal.SIGINT


def test_a_script_that_is_not_there(tmp_path):
    [(code, _, error)] = ended(tmp_path, (*RUN, "nowhere.py"))
    assert code == 2
    missing = f"can't open file '{tmp_path / 'nowhere.py'}': [Errno 2] No such file or directory"
    assert error.decode() == f"keras-gpukit run: {missing}\n"


def test_wrong_arguments_end_it_before_the_script_starts(capsys):
    for arguments, complaint in (
        ((), "give the SCRIPT to run, or -m MODULE"),
        (("--memory", "8 parsecs", "x.py"), "`memory` must be"),
        (("--memory", "growth,8GiB", "x.py"), "TensorFlow grows the memory of all its GPUs"),
        (("--deterministic", "x.py"), "needs a `seed`"),
        (("--log-dir", __file__, "x.py"), "is not a folder"),
        (("--profil", "x.py"), "unrecognized arguments: --profil"),
    ):
        with pytest.raises(SystemExit) as ending:
            main(["run", *arguments])
        assert ending.value.code == 2
        assert complaint in capsys.readouterr().err
