"""Settings, their flags and their environment variables."""

import socket
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
import typer

from onepass.cli.app import app
from onepass.errors import ConfigError
from onepass.server.run import listen_on
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


@pytest.mark.parametrize(
    ("files", "most", "allowed", "connections"), [(100, 400, 328, 200), (100, 300, 300, 172), (20, 20, 20, 10)]
)
def test_no_more_connections_are_taken_than_files_may_be_open(
    files: int, most: int, allowed: int, connections: int
) -> None:
    code = f"""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, ({max(files, 100)}, {max(most, 100)}))  # for the imports
from onepass.server.run import with_room
from onepass.server.settings import Settings
resource.setrlimit(resource.RLIMIT_NOFILE, ({files}, {most}))
settings = with_room(Settings(max_connections=200))
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], settings.max_connections)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == [str(allowed), str(connections)]
    told = f"{allowed} files may be open here (ulimit -n): --max-connections is {connections}."
    assert (told in found.stderr) == (connections < 200)


@pytest.mark.parametrize(("host", "flag"), [("192.0.2.1", "--host"), ("", "--port")])
def test_what_cannot_be_listened_on_is_told_with_what_to_change(host: str, flag: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        given = Settings(host=host or "127.0.0.1", port=taken.getsockname()[1])
        with pytest.raises(ConfigError, match=f"^Cannot listen on .*Choose another with {flag}.$"):
            listen_on(given)
