"""Who may ask: keys that are kept as hashes, each with a budget of tokens a second."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import random
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from onepass.errors import ConfigError, listed
from onepass.server.replies import Refused

BURST_S = 1.0
GUESS_S, LONGEST_GUESS_S, FEW_GUESSES = (0.25, 0.75), 15.0, 8
_NAME = re.compile(r"[\w.-]{1,64}")
_LINE = re.compile(f"(?P<name>{_NAME.pattern})" r"\s+(?P<hash>[0-9a-fA-F]{64})(?:\s+(?P<rate>\d+(?:\.\d+)?))?")


class Key:
    """Somebody who may ask."""

    def __init__(
        self,
        name: str,
        hashed: bytes,
        tokens_per_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.name, self.hashed, self.tokens_per_s, self._clock = name, hashed, tokens_per_s, clock
        self.under_way = 0
        self._left = (tokens_per_s or 0) * BURST_S
        self._when = clock()

    def check_budget(self) -> None:
        """Raise when the budget is used up."""
        if self.tokens_per_s is None:
            return
        now = self._clock()
        self._left = min(self.tokens_per_s * BURST_S, self._left + (now - self._when) * self.tokens_per_s)
        self._when = now
        if self._left <= 0:
            raise Refused(
                429,
                "over_budget",
                f"This key has a budget of {self.tokens_per_s:g} tokens a second, and it is used up.",
                retry_s=-self._left / self.tokens_per_s,
            )

    def charge(self, tokens: int) -> None:
        """Take tokens from the budget, or raise when it is used up; a large request may run it into debt."""
        self.check_budget()
        self._left -= tokens


ANYONE = Key("anyone", b"")


class Guesses:
    """Answers to wrong keys are held back, the longer the more of them wait: a flood or a search slows itself down.

    At odd times, so that many connections that are answered do not all ask again at once.
    """

    def __init__(self) -> None:
        self.waiting = 0

    async def hold(self) -> None:
        self.waiting += 1
        try:
            seconds = random.uniform(*GUESS_S) * (1 + self.waiting / FEW_GUESSES)
            await asyncio.sleep(min(seconds, LONGEST_GUESS_S))
        finally:
            self.waiting -= 1


class Keyring:
    """The keys of a server; an empty one means that nobody needs a key."""

    def __init__(self, keys: Iterable[Key] = ()):
        self.keys = list(keys)

    def __bool__(self) -> bool:
        return bool(self.keys)

    def find(self, headers: Mapping[str, str]) -> Key | None:
        """The key in a request's headers; all keys are compared, each in constant time."""
        scheme, _, rest = (authorization := headers.get("authorization", "")).partition(" ")
        given = headers.get("x-api-key") or (rest.strip() if scheme.lower() == "bearer" else authorization)
        hashed = hash_of(given)
        found = None
        for key in self.keys:
            if hmac.compare_digest(hashed, key.hashed):
                found = key
        return found

    @classmethod
    def read(cls, path: Path | None, plain: str = "", variable: str = "ONEPASS_API_KEY") -> Keyring:
        """The keys of a file, and one that is given as it is, by a variable of the environment."""
        plain = plain.strip()  # secrets often end in a line end, which no header can have
        if not (plain.isascii() and plain.isprintable()):  # headers are read as Latin-1, and clients send UTF-8
            raise ConfigError(
                f"{variable} holds other characters than the printable ones of ASCII: no client could send it. Make "
                "another key, with: openssl rand -hex 32"
            )
        keys = [Key("default", hash_of(plain))] if plain else []
        if path is None:
            return cls(keys)
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8"
            raise ConfigError(f"The file of keys {path} cannot be read: {reason}.") from None
        faults = []
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            match = _LINE.fullmatch(line.strip())
            if match is None:  # the line itself is not shown: it may be a key
                faults.append(f"{path}, line {number}: not NAME SHA256 [TOKENS_PER_SECOND].")
                continue
            rate = float(match["rate"]) if match["rate"] else None
            if rate == 0:
                faults.append(f"{path}, line {number}: 0 tokens a second is nothing. Leave the line out.")
                continue
            keys.append(Key(match["name"], bytes.fromhex(match["hash"]), rate))
        names = [key.name for key in keys]
        faults += [
            f"{path}: the name {name!r} is there twice." for name in sorted({n for n in names if names.count(n) > 1})
        ]
        if not keys and not faults:
            faults.append(f"{path} holds no key. Make a line for it with: onepass serve --make-key NAME")
        if faults:
            raise ConfigError(listed(faults))
        return cls(keys)


def hash_of(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def make_key(name: str) -> tuple[str, str]:
    """A new key, and the line that lets it in."""
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name!r} cannot name a key. Possible: up to 64 letters, digits, '.', '_' and '-'.")
    key = f"op-{secrets.token_urlsafe(32)}"
    return key, f"{name} {hash_of(key).hex()}"
