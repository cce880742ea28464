"""Arguments and options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

Folder = Annotated[Path, typer.Argument(help="A model folder.", metavar="MODEL")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]

# Of benches that train.
Suite = Annotated[str, typer.Option(help="A task file with test files.", metavar="TASKS.YAML")]
Overrides = Annotated[
    list[str] | None, typer.Argument(help="Other values than the file's: train.epochs=1.", metavar="KEY=VALUE")
]
Jobs = Annotated[int, typer.Option(help="Runs side by side; 8 to 14 on a large GPU.", min=1)]
Output = Annotated[
    Path, typer.Option("--output", "-o", help="One JSON line a run; runs that are there are not repeated.")
]
Limit = Annotated[
    float | None,
    typer.Option("--limit", help="Stop after so many seconds; the same command goes on.", metavar="SECONDS"),
]
