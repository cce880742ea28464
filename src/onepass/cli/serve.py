"""onepass serve: a model over HTTP, with a page to try it on."""

from __future__ import annotations

import inspect
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from onepass.cli.console import listen, say, show
from onepass.errors import ConfigError
from onepass.server.settings import Settings


def serve(
    folder: Annotated[
        Path | None, typer.Argument(help="A model folder.", metavar="MODEL", envvar="ONEPASS_MODEL")
    ] = None,
    make_key: Annotated[
        str | None, typer.Option(help="Make a key, show it and its line for a file of keys, and leave.", metavar="NAME")
    ] = None,
    **settings: Any,
) -> None:
    """Serve a model over HTTP, with a page to try it on at /.

    onepass serve runs/news

    Every option is also an environment variable, ONEPASS_ and its name: ONEPASS_PORT. A single key may be given as
    ONEPASS_API_KEY, one for changing tasks as ONEPASS_ADMIN_KEY.
    """
    if make_key is not None:
        from onepass.server import keys

        key, line = keys.make_key(make_key)
        show(f"key   {key}", f"line  {line}")
        return
    if folder is None:
        raise ConfigError("Which model? Give its folder: onepass serve runs/news")
    from onepass.contents import check_folder

    check_folder(folder)
    from onepass.server.run import serve as run

    listen()
    run(folder, Settings(**settings), say)


def _with_settings(command: Any) -> Any:
    """The command with an option for every setting."""
    given = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.kind is not p.VAR_KEYWORD]
    hints = get_type_hints(Settings)
    for item in fields(Settings):
        name = item.name.replace("_", "-")
        flags = (f"--{name}/--no-{name}",) if hints[item.name] is bool else (f"--{name}",)
        option = typer.Option(*flags, help=item.metadata["help"], envvar=f"ONEPASS_{item.name.upper()}")
        given.append(
            inspect.Parameter(
                item.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=item.default,
                annotation=Annotated[hints[item.name], option],
            )
        )
    command.__signature__ = inspect.Signature(given)
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in given}
    return command


_with_settings(serve)
