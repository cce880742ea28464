"""From errors to messages and exit codes.

0  done
1  a fault in onepass itself
2  something for the user to mend: one message, no traceback (ONEPASS_DEBUG=1 shows it)
130  stopped with Ctrl-C        141  nobody reads our output any more        143  told to end (SIGTERM)
"""

import errno
import functools
import io
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer

from onepass.cli.console import say
from onepass.errors import OnepassError
from onepass.extras import advice

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


class Terminated(KeyboardInterrupt):
    """SIGTERM: a command ends as with Ctrl-C, and what it has begun, processes and files, is put away."""


def guarded(command: Callable[..., None], group: str = "onepass") -> Callable[..., None]:
    """The command with every error turned into a message on stderr and an exit code.

    `group` is what is typed before its name.
    """

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        _prepare()
        try:
            with _ending():
                command(*args, **kwargs)
            sys.stdout.flush()
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except KeyboardInterrupt as stop:
            say("Stopped.")
            raise typer.Exit(143 if isinstance(stop, Terminated) else 130) from None
        except Exception as error:  # noqa: BLE001  no traceback for a user, whatever it was
            _drop_stdout()
            if isinstance(error, BrokenPipeError):
                raise typer.Exit(141) from None
            if os.environ.get("ONEPASS_DEBUG"):
                traceback.print_exc()
            message, code = explained(error, f"{group} {command.__name__}")
            say(message)
            raise typer.Exit(code) from None

    return run


def explained(error: Exception, command: str) -> tuple[str, int]:
    """The message for an error, and the exit code."""
    if isinstance(error, OnepassError):
        return str(error), 2
    # safetensors writes from Rust and reports a full disk as an error of its own
    if (isinstance(error, OSError) and error.errno in NO_SPACE) or "os error 28" in str(error):
        name = getattr(error, "filename", None)
        where = f" for {name}" if name else ""
        return (
            f"There is no space left on the disk{where}. Nothing was changed. Free some, or choose another output.",
            2,
        )
    # torch raises errors of its own: RuntimeError for memory of the machine, OutOfMemoryError for a GPU's
    if isinstance(error, MemoryError) or any(
        words in str(error) for words in ("can't allocate memory", "out of memory")
    ):
        return (
            "There is not enough memory. Give less at once: train.batch_tokens or train.max_length for a training.",
            2,
        )
    if isinstance(error, ModuleNotFoundError) and (text := advice(error, command)):
        return text, 2
    if isinstance(error, ImportError) and "onepass[" in str(error):  # a public name that said so already
        return str(error), 2
    if isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        return f"{name}{error.strerror or error}.", 2
    return (
        f"A fault in onepass: {type(error).__name__}: {error}\n"
        "Please report it with what ONEPASS_DEBUG=1 shows when you run the command again.",
        1,
    )


@contextmanager
def _ending() -> Iterator[None]:
    """Let SIGTERM raise, within the block, in place of ending the process at once; as a container's first process it
    would not even end."""
    if threading.current_thread() is not threading.main_thread():  # only that one may say what signals do
        yield
        return

    def end(*_: object) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


def _prepare() -> None:
    """Results in UTF-8 whatever the locale; a lone surrogate becomes an escape, which is also valid in JSON."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    logging.getLogger("onepass").handlers.clear()


def _drop_stdout() -> None:
    """If stdout takes no more, give the rest to nobody: Python would complain once again when it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
