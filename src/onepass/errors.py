"""What can go wrong, in words a user can act on.

OnepassError
├── ConfigError     the task file, an option, the command line
├── DataError       a data file, a column, a row, a label
├── EncoderError    an encoder that is missing, damaged or of an unknown family
├── FolderError     a model folder that is missing, damaged, in the way or cannot be written
└── TrainingError   a training that cannot go on

A message says what was wrong, where, what was found, what is possible and what to do.
The command line prints the message alone and exits with code 2.
"""

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

MOST_NAMES = 40
_MARK = "\n  - "
_COUNT = re.compile(rf"^\d+ faults:{_MARK}")


class OnepassError(Exception):
    """Base of every error that is the user's to mend."""


class ConfigError(OnepassError):
    """A fault in the task file, in an option or on the command line."""


class DataError(OnepassError):
    """A fault in a data file."""


class EncoderError(OnepassError):
    """An encoder that cannot be loaded."""


class FolderError(OnepassError):
    """A model folder that cannot be read or written."""


class NoSpace(FolderError):
    """A folder for which there is no room on the disk."""


class TrainingError(OnepassError):
    """A training that cannot go on."""


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """The message for a name that is not on the list, with the nearest one that is.

    >>> unknown("method", "mtpo", ["readers", "mtop"])
    "Unknown method 'mtpo'. Did you mean 'mtop'? Known: mtop, readers."
    """
    names = sorted(known)
    return f"Unknown {what} {name!r}.{did_you_mean(name, names)} Known: {first_of(names)}."


def first_of(names: Sequence[str]) -> str:
    """Names for a message: a model may have a thousand tasks, a task hundreds of labels.

    >>> first_of(["no", "yes"])
    'no, yes'
    """
    more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """What to add to a sentence about a name that is not there: the nearest one that is, if any is near.

    >>> did_you_mean("lable", ["text", "label"])
    " Did you mean 'label'?"
    """
    near = get_close_matches(str(name), list(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def listed(faults: list[str]) -> str:
    """All faults as one message: alone on its line, or as a counted list; a list among them becomes part of it.

    >>> print(listed(["no text", listed(["no label", "no rows"])]))
    3 faults:
      - no text
      - no label
      - no rows
    """
    single = [one for fault in faults for one in each(fault)]
    return single[0] if len(single) == 1 else f"{len(single)} faults:" + "".join(_MARK + one for one in single)


def each(message: str) -> list[str]:
    """The faults that a message lists.

    >>> each(listed(["no label", "no rows"]))
    ['no label', 'no rows']
    """
    count = _COUNT.match(message)
    return message[count.end() :].split(_MARK) if count else [message]
