"""What the commands that change a model's tasks have in common: options as key=value, and how they report."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from onepass.cli.console import say, show, write_json
from onepass.errors import ConfigError

if TYPE_CHECKING:
    from onepass.living import Proof
    from onepass.training.adding import AddOptions


def report(message: str, proof: Proof, json: bool, **facts: Any) -> None:
    """What was done, and the proof that nothing else moved."""
    if json:
        write_json({**facts, "proof": {**vars(proof)}})
    else:
        say(message)
        show(str(proof))


def adding_options(texts: Sequence[str]) -> AddOptions:
    """How to train an added task, from key=value."""
    from onepass.plain_yaml import parse
    from onepass.training.adding import add_options

    values = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"{text!r}: write it as key=value, for example epochs=20.")
        document = parse(value)
        if document.faults:
            raise ConfigError(f"{text!r}: {document.faults[0][1]}")
        values[key.strip().removeprefix("train.")] = document.value
    return add_options(values)


def given(**keys: Any) -> dict[str, Any]:
    """The keys that were given a value; `validation` may be a share."""
    found = {key: value for key, value in keys.items() if value not in (None, [], ())}
    with suppress(ValueError, KeyError):
        found["validation"] = float(found["validation"])
    return found
