"""`keras-gpukit scaling`: a run's figures and the options, as a table or JSON."""

import pytest
from helpers.json_output import valid_json
from helpers.training import arrays, small_model

from keras_gpukit import Monitor
from keras_gpukit.cli.main import main

GIVEN = ["--step-ms", "100", "--gradient-mb", "100", "--batch", "64"]


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs")
    small_model().fit(*arrays(40), batch_size=16, verbose=0, callbacks=[Monitor(folder)])
    return str(folder)


def as_json(capsys, *arguments):
    assert main(["scaling", *arguments, "--json"]) == 0
    return valid_json("scaling", capsys.readouterr().out)


def test_a_run_gives_step_gradients_and_batch(capsys, log_dir):
    found = as_json(capsys, log_dir, "--inside", "nvlink-a100", "--between", "12.5")
    basis = found["basis"]
    assert basis["gradient_bytes"] == 9 * 4  # the weights and the bias of Dense(1) on 8 features
    assert basis["batch"] == pytest.approx(16)
    assert basis["step_s"] > 0
    assert [point["gpus"] for point in found["points"]] == [8, 64, 1024]
    assert all(0 < point["efficiency"] <= 1 for point in found["points"])
    assert "A100 data sheet" in found["inside"]["source"]
    assert found["between"]["source"] == "given"


def test_the_step_of_a_run_on_the_cpu_is_not_called_that_of_a_gpu(capsys, log_dir):
    assert main(["scaling", log_dir]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "step of the CPU without exchange" in shown
    assert "Warning: the run had no GPU" in shown
    assert as_json(capsys, log_dir)["basis"]["on_cpu"]
    assert main(["scaling", log_dir, "--step-ms", "10"]) == 0
    shown = capsys.readouterr().out
    assert "step of one GPU" in shown
    assert "Warning" not in shown


def test_what_is_unknown_comes_with_the_options_that_give_it(capsys):
    assert main(["scaling", "--step-ms", "100"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "unknown: the size of the gradients, the bandwidth inside nodes" in shown
    assert "the gradients by --gradient-mb, the links by --inside and --between" in shown
    assert main(["scaling", *GIVEN, "--inside", "10", "--between", "1"]) == 0
    assert "What is unknown can be given" not in capsys.readouterr().out


def test_what_nobody_gave_is_unknown(capsys, log_dir):
    found = as_json(capsys, log_dir)
    assert found["points"][0]["step_s"] is None
    assert "bandwidth inside nodes" in found["points"][0]["unknown_because"]


def test_without_a_record_the_options_are_enough(capsys):
    options = ["--gpus", "2,16", "--gpus-per-node", "4", "--inside", "10", "--between", "1"]
    assert main(["scaling", *GIVEN, *options]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "2 1 10 ms 110 ms 91 %" in shown
    assert "16 4 165 ms 265 ms 38 %" in shown  # 15 ms inside, 150 ms between
    assert "Patarasuk and Yuan 2009" in shown
    assert "latency between nodes is unknown" in shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([*GIVEN, "--inside", "wet-string"], "one of nvlink-a100"),
        ([*GIVEN, "--inside", "-3"], "Received: '-3'"),
        (["no/such/folder"], "no folder"),
        ([], "give LOGDIR, a run's log folder, or --step-ms and --gradient-mb"),
    ],
)
def test_mistakes_exit_with_2(capsys, arguments, words):
    arguments = [f"--inside={arguments[-1]}" if each == "-3" else each for each in arguments]
    if any(each.startswith("--inside=") for each in arguments):
        arguments.remove("--inside")
    assert main(["scaling", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_a_run_that_is_not_there_lists_those_that_are(capsys, log_dir):
    assert main(["scaling", log_dir, "--run", "other"]) == 2
    assert "There is no other" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--gpus", "0"], ["--gpus", "a"], ["--step-ms", "inf"]])
def test_numbers_are_checked(arguments):
    with pytest.raises(SystemExit) as ended:
        main(["scaling", *arguments])
    assert ended.value.code == 2
