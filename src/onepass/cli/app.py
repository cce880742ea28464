"""The commands, joined: onepass demo, init, check, train, evaluate, predict, export, info, add, update, remove,
rename, copy, threshold, serve, report, bench.

What takes long to import (torch above all) is imported inside the commands, so that -h answers at once.
"""

import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from onepass import __version__
from onepass.cli.add import add
from onepass.cli.bench import bench
from onepass.cli.check import check
from onepass.cli.copy import copy
from onepass.cli.demo import demo
from onepass.cli.evaluate import evaluate
from onepass.cli.export import export
from onepass.cli.guard import guarded
from onepass.cli.info import info
from onepass.cli.init import init
from onepass.cli.predict import predict
from onepass.cli.remove import remove
from onepass.cli.rename import rename
from onepass.cli.report import report
from onepass.cli.serve import serve
from onepass.cli.threshold import threshold
from onepass.cli.train import train
from onepass.cli.update import update


class Command(TyperCommand):
    """A command that says of `--epochs 3` how values for a training are written, where it takes some."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            fault: Any = error  # which module it is of goes by the version of typer
            name = fault.option_name if hasattr(fault, "possibilities") else ""  # that there is no such option
            takes_values = any("KEY=VALUE" in (getattr(one, "metavar", None) or "") for one in self.params)
            if takes_values and name.startswith("--") and not fault.possibilities:
                fault.message += f". Values for a training are written as KEY=VALUE: {name[2:].replace('-', '_')}=..."
            raise


app = typer.Typer(
    name="onepass",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # guard.py answers for errors
    rich_markup_mode=None,  # whose help says that flags such as --json take a value, "<bool>"
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS = (
    demo, init, check, train, evaluate, predict, export, info, add, update, remove, rename, copy, threshold, serve,
    report,
)  # fmt: skip
for command in COMMANDS:
    app.command(cls=Command)(guarded(command))
app.add_typer(bench, name="bench")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"onepass {__version__}")
        raise typer.Exit


@app.callback()
def onepass(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and leave.")
    ] = False,
) -> None:
    """One text encoder, many tasks, one forward pass.

    Start with: onepass demo
    """


def main() -> None:
    """The entry point of the command onepass."""
    # Threads that wait for each other soon sleep instead of spinning: beside another busy program, spinning made
    # training on two cores three times slower than on one. A short spin is worth it: `add` took 19.5 s with it and
    # 22.6 s without, on busy cores 34 s and 39 s. Read when torch is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("GOMP_SPINCOUNT", "2000")
    _open_streams()
    app(prog_name="onepass")


def _open_streams() -> None:
    """Give stdin, stdout and stderr to nobody where they are closed, as by some schedulers (`onepass ... >&-`).

    Otherwise Python has None in their place, and a file that is opened later could get what is written to stderr.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            while (got := os.open(os.devnull, os.O_RDWR)) < number:
                pass
            setattr(sys, name, open(got, "w" if number else "r", encoding="utf-8"))  # noqa: SIM115  until the end
