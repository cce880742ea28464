"""Errors become messages and exit codes."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import onepass
from onepass.cli.guard import guarded
from onepass.errors import DataError


def outcome(error: BaseException):
    app = typer.Typer(pretty_exceptions_enable=False)

    def fail() -> None:
        raise error

    app.command()(guarded(fail))
    return CliRunner().invoke(app, [])


def test_a_users_fault_is_its_message_alone():
    result = outcome(DataError("a.csv, row 17: no text."))
    assert (result.exit_code, result.stderr, result.stdout) == (2, "a.csv, row 17: no text.\n", "")


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device", "runs/news"),
        RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)"),
    ],
)
def test_a_full_disk_has_a_message_that_says_what_became_of_the_files(error):
    result = outcome(error)
    assert result.exit_code == 2
    assert "no space left on the disk" in result.stderr
    assert "Nothing was changed" in result.stderr


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: ..."),
        RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    ],
)
def test_too_little_memory_is_no_fault_of_ours(error):
    result = outcome(error)
    assert result.exit_code == 2
    assert "not enough memory" in result.stderr and "train.batch_tokens" in result.stderr


def test_other_refusals_of_the_system_name_the_file():
    result = outcome(PermissionError(errno.EACCES, "Permission denied", "runs/news"))
    assert (result.exit_code, result.stderr) == (2, "runs/news: Permission denied.\n")


@pytest.mark.parametrize(("package", "extra"), [("torch", "train"), ("onnxruntime", "onnx"), ("psutil", "bench")])
def test_a_missing_package_is_named_with_what_to_install(package, extra):
    result = outcome(ModuleNotFoundError(f"No module named {package!r}", name=package))
    told = f"onepass fail needs extra packages: pip install 'onepass[{extra}]'\n"
    assert (result.exit_code, result.stderr) == (2, told)


def test_ctrl_c_exits_with_130():
    result = outcome(KeyboardInterrupt())
    assert (result.exit_code, result.stderr) == (130, "Stopped.\n")


def test_sigterm_ends_a_command_as_ctrl_c_does():
    app, before = typer.Typer(pretty_exceptions_enable=False), signal.getsignal(signal.SIGTERM)
    put_away = []

    @app.command()
    @guarded
    def wait() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(30)
        finally:
            put_away.append(True)

    result = CliRunner().invoke(app)
    assert (result.exit_code, result.stderr, put_away) == (143, "Stopped.\n", [True])
    assert signal.getsignal(signal.SIGTERM) is before


def test_our_own_faults_exit_with_1_and_show_no_traceback():
    result = outcome(ZeroDivisionError("division by zero"))
    assert result.exit_code == 1
    assert "ZeroDivisionError: division by zero" in result.stderr
    assert "Traceback" not in result.stderr


def test_debug_shows_the_traceback(monkeypatch):
    monkeypatch.setenv("ONEPASS_DEBUG", "1")
    result = outcome(DataError("a.csv is empty."))
    assert result.exit_code == 2
    assert "Traceback" in result.stderr and result.stderr.endswith("a.csv is empty.\n")


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_reader_who_leaves_hears_nothing_more(process, model, form):
    read, write = os.pipe()
    os.close(read)
    result = process("info", model, *form, stdout=write, stderr=subprocess.PIPE, capture_output=False)
    os.close(write)
    assert (result.returncode, result.stderr) == (128 + signal.SIGPIPE, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_behind_stdout_is_told(process, model):
    with open("/dev/full", "w") as full:
        result = process("info", model, "--json", stdout=full, stderr=subprocess.PIPE, capture_output=False)
    assert result.returncode == 2
    assert result.stderr.startswith("There is no space left on the disk")
    assert result.stderr.count("\n") == 1


def test_closed_streams_are_no_fault(model):
    command = [sys.executable, "-m", "onepass", "predict", str(model)]
    environment = os.environ | {"PYTHONPATH": str(Path(onepass.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    for closed, text in ((">&-", "goal"), ("<&-", "-"), ("2>&-", "goal")):
        line = f'exec "$@" {closed}'
        told = subprocess.run(
            ["sh", "-c", line, "sh", *command, text], env=environment, capture_output=True, text=True, check=False
        )
        assert (told.returncode, "fault" in told.stderr, "Traceback" in told.stderr) == (0, False, False), told.stderr
