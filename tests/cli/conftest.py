"""Ways to run commands."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import onepass
from onepass.cli.app import app


@pytest.fixture
def run() -> Callable[..., Any]:
    """Runs a command in this process; the result has exit_code, stdout and stderr."""

    def call(*arguments: Any, stdin: str | bytes | None = None) -> Any:
        return CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin, prog_name="onepass")

    return call


@pytest.fixture
def process() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a command as a process of its own; `first` is a folder whose modules come before all others."""

    def call(*arguments: Any, **options: Any) -> subprocess.CompletedProcess[str]:
        folders = [*map(str, filter(None, [options.pop("first", None)])), str(Path(onepass.__file__).parents[1])]
        environment = (
            os.environ | {"PYTHONPATH": os.pathsep.join(folders), "OMP_NUM_THREADS": "1"} | options.pop("env", {})
        )
        options = {"capture_output": True} | options
        command = [sys.executable, "-m", "onepass", *map(str, arguments)]
        return subprocess.run(command, text=True, env=environment, timeout=120, check=False, **options)

    return call
