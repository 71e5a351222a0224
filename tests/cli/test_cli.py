"""The command line and the package's front door, each in a process of its own."""

import ast
import functools
import inspect
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import prepared
from helpers.processes import ROOT, environment
from helpers.recorded_runs import run_lines, write_lines
from rich.console import Console

import keras_gpukit
from keras_gpukit.cli.command_line import LEVEL, PRINTED
from keras_gpukit.cli.demo import as_advised, as_written, image_files, print_code
from keras_gpukit.cli.main import GROUPS, main, parsers
from keras_gpukit.rules.verdict import RULES

FRAMEWORKS = ("tensorflow", "keras", "tensorboard", "sklearn", "pandas")


def python(*arguments: str, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
    """Runs Python with no setting of TensorFlow's log."""
    variables = {name: value for name, value in os.environ.items() if name != LEVEL}
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env={**variables, "COLUMNS": "80"},
        check=False,
    )


def loaded_after(code: str) -> str:
    """The frameworks that are loaded when a process with this code ends, as a set prints them."""
    report = f"print(set(sys.modules) & set({FRAMEWORKS!r}), file=sys.stderr)"
    at_end = f"import atexit, sys; atexit.register(lambda: {report})"
    return python("-c", f"{at_end}\n{code}").stderr.strip()


HELP_AND_REPORT = """
import sys
from contextlib import suppress
from keras_gpukit.cli.main import main
for command in ([], ["explain"], ["run"], ["launch"], ["demo"], ["doctor"], ["report"]):
    with suppress(SystemExit):
        main([*command, "--help"])
main(["report", {!r}, "--out", {!r}])
"""


def test_importing_the_package_loads_no_framework():
    assert loaded_after("import keras_gpukit; dir(keras_gpukit)") == "set()"


@pytest.mark.heavy
def test_help_and_a_report_load_no_framework(tmp_path):
    write_lines(tmp_path, run_lines())
    page = tmp_path / "report.html"
    assert loaded_after(HELP_AND_REPORT.format(str(tmp_path), str(page))) == "set()"
    assert page.exists()


def commands() -> dict:
    """The parsers of the commands, by name."""
    [found] = (each.choices for each in parsers()[0]._actions if isinstance(each.choices, dict))
    return found


def test_each_command_with_json_has_a_schema():
    made = commands().items()
    with_json = {name for name, each in made if "--json" in each._option_string_actions}
    assert with_json == PRINTED.keys()
    page = (ROOT / "docs" / "reference" / "machine-readable.md").read_text(encoding="utf-8")
    assert {name for name in PRINTED if f"({name}.schema.json)" in page} == with_json


def test_version():
    result = python("-m", "keras_gpukit", "--version")
    version = f"keras-gpukit {keras_gpukit.__version__}\n"
    assert (result.stdout, result.returncode) == (version, 0)


@pytest.mark.tensorflow
def test_public_names_resolve():
    assert [name for name in keras_gpukit.__all__ if getattr(keras_gpukit, name) is None] == []


def test_public_names_are_those_of_the_reference_and_of_type_checkers():
    page = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    listed = re.findall(r"^::: keras_gpukit\.(\w+)$", page, re.MULTILINE)
    assert sorted({*listed, "__version__"}) == sorted(keras_gpukit.__all__)
    source = Path(keras_gpukit.__file__).read_text(encoding="utf-8")
    (checking,) = [node for node in ast.parse(source).body if isinstance(node, ast.If)]
    imported = {alias.name: node.module for node in checking.body for alias in node.names}
    assert imported == keras_gpukit._HOMES
    with pytest.raises(AttributeError, match="no attribute 'Monitors'"):
        _ = keras_gpukit.Monitors


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("train", "invalid choice: 'train'"),
        ("rnu x.py", "; did you mean run?"),
        ("run --profle x.py", "keras-gpukit run: error: unrecognized arguments: --profle"),
        ("run --profle x.py", "; did you mean --profile?"),
        ("run ''", "give the SCRIPT to run, or -m MODULE\n"),
        ("run --jit maybe x.py", "--jit: must be auto, on, off, and is 'maybe'"),
        # A service that does not exist is refused before the script runs.
        ("run --log-to otel,tb train.py", "Received: log_to=['otel', 'tb']"),
        ("tune -m ''", "give the SCRIPT to run, or -m MODULE\n"),
        (f"demo --log-dir {__file__}", f"--log-dir: {__file__} is not a folder"),
        ("demo --data-dir ''", "--data-dir: the folder's name is empty"),
        ("demo extra", "unrecognized arguments: extra"),
        ("report ''", "argument LOGDIR: the path is empty\n"),
        ("report logs --out ''", "argument --out: the path is empty\n"),
        ("report logs --out logs", "argument --out: logs is a folder; give a file\n"),
        ("report logs --out no/r.html", "argument --out: the folder no does not exist\n"),
        ("compare '' logs", "argument RUN_A: the path is empty\n"),
        ("compare logs ''", "argument RUN_B: the path is empty\n"),
        ("compare logs logs --junit ''", "argument --junit: the path is empty\n"),
        ("compare logs logs --junit logs", "argument --junit: logs is a folder; give a file\n"),
        ("compare logs logs --junit no/x", "argument --junit: the folder no does not exist\n"),
        ("compare logs logs --fail-on 'speed>+1%'", "figures are step_time, examples_per_s, "),
        ("compare logs logs --fail-on 'speed>+1%'", "Received: 'speed>+1%'\n"),
    ],
)
def test_wrong_arguments_say_what_is_wrong(line, complaint, capsys, tmp_path, monkeypatch):
    (tmp_path / "logs").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        main(shlex.split(line))
    assert complaint in capsys.readouterr().err


def test_without_a_command_it_prints_its_help_with_each_command_in_a_group(capsys):
    assert main([]) == 0
    printed = capsys.readouterr().out
    assert "keras-gpukit run train.py" in printed
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(commands())
    assert printed.index("Find out:") < printed.index("  run ") < printed.index("Memory:")


def test_a_rule_is_explained_from_its_page(capsys):
    assert main(["explain", "(tiny-steps)"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("tiny-steps: Many tiny steps")
    assert "Threshold. Under 2 ms." in printed
    assert "](" not in printed
    assert main(["explain"]) == 0
    head, *listed = re.findall(r"^([a-z0-9-]+)  ", capsys.readouterr().out, re.MULTILINE)
    assert (head, set(listed)) == ("code", {rule.code for rule in RULES})
    # Of one that is not there, the closest one is named.
    assert main(["explain", "input-bond"]) == 2
    assert "no rule 'input-bond'; did you mean input-bound?" in capsys.readouterr().err
    assert main(["explain", "xyz"]) == 2
    assert "did you mean" not in capsys.readouterr().err


def test_the_demos_code_is_whole_in_a_narrow_terminal(capsys):
    for pipeline in (as_written, as_advised):
        print_code(pipeline, Console(width=40))
        assert capsys.readouterr().out.rstrip() == inspect.getsource(pipeline).rstrip()


def test_an_interrupt_and_a_missing_scikit_learn_end_the_demo_without_a_traceback(
    monkeypatch, capsys
):
    monkeypatch.setitem(sys.modules, "sklearn", None)  # as if it were not installed
    assert main(["demo"]) == 1
    assert '[demo]"' in capsys.readouterr().err

    def interrupted(args):
        raise KeyboardInterrupt

    monkeypatch.setattr("keras_gpukit.cli.demo.run", interrupted)
    assert main(["demo"]) == 130


@pytest.mark.tensorflow
def test_demo_with_an_unwritable_data_folder_says_so(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(["demo", f"--data-dir={tmp_path / 'file' / 'folder'}"]) == 1
    error = capsys.readouterr().err
    assert "keras-gpukit demo: the images cannot be written to --data-dir:" in error
    assert "Traceback" not in error


@pytest.mark.tensorflow
def test_images_are_written_once_and_whole(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_gpukit.cli.demo.IMAGES", 8)
    paths, labels = image_files(tmp_path)
    assert len(set(paths)) == len(labels) == 8
    assert all(Path(path).read_bytes().startswith(b"\xff\xd8") for path in paths)  # JPEG
    Path(paths[0]).write_bytes(b"untouched")
    assert image_files(tmp_path) == (paths, labels)
    assert Path(paths[0]).read_bytes() == b"untouched"
    assert len(list(tmp_path.iterdir())) == 1


# The demo with fewer epochs and images.
SHORT_DEMO = """
import sys
from keras_gpukit.cli import demo
demo.EPOCHS, demo.IMAGES, demo.BATCH_SIZE = 2, 160, 8
from keras_gpukit.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def run_demo(folder: Path, run: Callable) -> tuple[list[dict], str]:
    """The summaries of both runs, and what was printed."""
    result = run("demo", f"--log-dir={folder / 'logs'}", f"--data-dir={folder / 'images'}")
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    summaries = [
        last_summary(next((folder / "logs").glob(f"*/{name}/gpukit/run.jsonl")))
        for name in ("as_written", "as_advised")
    ]
    return summaries, result.stdout


@pytest.mark.tensorflow
@pytest.mark.slow
def test_demo_finds_the_slow_input(tmp_path):
    (script := tmp_path / "demo.py").write_text(SHORT_DEMO)
    env = environment(COLUMNS="80")
    run = functools.partial(prepared.run, script, env=env, timeout=240)
    (written, advised), printed = run_demo(tmp_path, run)
    lines = [line for line in printed.splitlines() if str(tmp_path) not in line]
    assert max(map(len, lines)) <= 80
    assert "input-bound" in [found["code"] for found in written["verdict"]["findings"]]
    assert written["input"]["confidence"] == "exact"
    for summary in (written, advised):
        assert f"{summary['throughput']['examples_per_s']:,.0f}" in printed
    assert f"tensorboard --logdir {tmp_path / 'logs'}" in printed


@pytest.mark.tensorflow
@pytest.mark.long
def test_demo_cures_the_slow_input(tmp_path):
    run = functools.partial(python, "-m", "keras_gpukit", timeout_s=240)
    (written, advised), _ = run_demo(tmp_path, run)
    assert "input-bound" in [found["code"] for found in written["verdict"]["findings"]]
    assert advised["input"]["stall_fraction"] < written["input"]["stall_fraction"]


def last_summary(run: Path) -> dict:
    lines = [json.loads(line) for line in run.read_text(encoding="utf-8").splitlines()]
    assert lines[0]["kind"] == "run"
    (summary,) = (line["record"] for line in lines if line["kind"] == "summary")
    return summary  # a reading of the machine may follow it
