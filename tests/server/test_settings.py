"""Settings, their flags and their environment variables."""

from dataclasses import fields
from pathlib import Path

import pytest
import typer

from onepass.cli.app import app
from onepass.errors import ConfigError
from onepass.server.settings import Settings


def test_every_setting_is_a_flag_and_an_environment_variable() -> None:
    command = typer.main.get_command(app).commands["serve"]  # type: ignore[attr-defined]
    flags = {option.name: option for option in command.params}
    for item in fields(Settings):
        option = flags[item.name]
        assert option.envvar == f"ONEPASS_{item.name.upper()}" and option.help == item.metadata["help"]
        assert f"--{item.name.replace('_', '-')}" in option.opts
    assert flags["folder"].envvar == "ONEPASS_MODEL"


def test_the_environment_sets_what_flags_set(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    environment = {"ONEPASS_PORT": "70000", "ONEPASS_MODEL": str(tmp_path)}
    found = CliRunner().invoke(app, ["serve"], env=environment)
    assert found.exit_code == 2 and "--port is 70000" in found.output
    found = CliRunner().invoke(app, ["serve", str(Path(__file__))])
    assert found.exit_code == 2 and "is a file. A model is a folder" in found.output


def test_what_goes_from_one_number_to_another_is_held_to_both() -> None:
    with pytest.raises(ConfigError, match=r"(?s)--change-nice is 20; possible: a number from 0 to 19.*--abstain-below"):
        Settings(abstain_below=50, change_nice=20).check(authenticated=False)
    Settings(abstain_below=1, change_nice=19).check(authenticated=False)
