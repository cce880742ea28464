"""Help, version, usage errors: what answers without loading anything."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import onepass
from onepass.cli.app import app

COMMANDS = [command.callback.__name__ for command in app.registered_commands if command.callback]


def test_all_commands_of_the_contract_are_there():
    assert COMMANDS[:6] == ["demo", "init", "check", "train", "evaluate", "predict"]
    assert {"add", "copy", "export", "info", "remove", "rename", "serve", "threshold", "update"} <= set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_every_command_has_help(run, command, flag):
    result = run(command, flag)
    assert result.exit_code == 0
    assert f"onepass {command}" in result.stdout
    assert "bool" not in result.stdout  # as if --json took a value


def test_flags_of_measurements_take_no_value_either(run):
    assert "--json " in run("bench", "cost", "-h").stdout and "bool" not in run("bench", "cost", "-h").stdout


def test_the_list_of_commands_cuts_no_sentence(run):
    assert "..." not in run("-h").stdout.partition("Commands:")[2]
    assert "..." not in run("bench", "-h").stdout.partition("Commands:")[2]


def test_the_version_is_shown(run):
    assert run("--version").stdout == f"onepass {onepass.__version__}\n"


def test_no_command_shows_help(run):
    assert "Usage" in run().output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trian"], "Did you mean 'train'?"),
        (["train", "tasks.yaml"], "Missing option"),
        (["info", "--jsn", "x"], "No such option"),
        (["train", "tasks.yaml", "--output"], "'--output' requires an argument"),
        (["train", "tasks.yaml", "-o", "x", "--batch-size", "8"], "are written as KEY=VALUE: batch_size=..."),
    ],
)
def test_usage_errors_exit_with_2(run, arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


def test_help_does_not_import_torch():
    code = "import sys, onepass.cli.app; sys.exit(any(m in sys.modules for m in ('torch', 'numpy', 'pyarrow')))"
    environment = os.environ | {"PYTHONPATH": str(Path(onepass.__file__).parents[1])}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["startup", "nowhere"], "There is no model folder nowhere"),
        (["serve", "nowhere"], "There is no model folder nowhere"),
        (["training", "train.epochs=1"], "'train.epochs=1' changes what a task file says, and there is none"),
        (["training", "--tasks", "1", "--suite", "nowhere.yaml"], "There is no task file nowhere.yaml"),
        (["device", "--device", "cuba"], "Unknown device 'cuba'. Did you mean 'cuda'?"),
        (["device", "--device", "cpu:x"], "Unknown device 'cpu:x'. Did you mean 'cpu'?"),
        (["device", "--device", "cuda:1"], "There is no GPU that torch can use here"),
    ],
)
def test_measurements_of_what_is_not_there_say_so(run, arguments, message):
    result = run("bench", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr and "Traceback" not in result.stderr and result.stdout == ""


@pytest.mark.parametrize("command", ["info", "export", "report", "evaluate"])
def test_a_folder_that_is_not_there_is_said_to_be_missing(run, command: str):
    result = run(command, "nowhere")
    assert result.exit_code == 2 and result.stderr.startswith("There is no model folder nowhere")


def test_a_file_is_no_model(run, tmp_path):
    (tmp_path / "tasks.yaml").write_text("tasks: {}")
    result = run("info", tmp_path / "tasks.yaml")
    assert result.exit_code == 2 and "is a file. A model is a folder" in result.stderr


def test_a_bench_without_its_packages_says_what_to_install(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    result = run("bench", "device")
    wanted = "onepass bench device needs extra packages: pip install 'onepass[train]'\n"
    assert (result.exit_code, result.stderr) == (2, wanted)
