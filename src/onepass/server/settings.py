"""What can be set for a server: each field is a flag of `onepass serve` and an environment variable."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from onepass.errors import ConfigError


def _flag(default: Any, text: str, least: float | None = None, most: float = float("inf")) -> Any:
    return field(default=default, metadata={"help": text, "least": least, "most": most})


@dataclass(frozen=True)
class Settings:
    """How a server listens, batches, limits and watches."""

    host: str = _flag("127.0.0.1", "The address to listen on; others than this machine's own need a key.")
    port: int = _flag(8000, "The port; 0 takes a free one.", 0)
    keys: Path | None = _flag(None, "A file of keys, one a line: NAME SHA256 [TOKENS_PER_SECOND]. See --make-key.")
    admin_keys: Path | None = _flag(
        None, "The same for those who may change tasks; without it nobody may, and the routes do not exist."
    )
    workers: int = _flag(1, "Processes that each hold the model.", 1)
    spare: bool = _flag(True, "Keep one more process waiting, so that a lost or new worker is there at once.")
    threads: int = _flag(0, "Threads of a worker; 0 shares the cores between the workers.", 0)
    device: str = _flag("cpu", "Where the model runs: cpu, or with torch cuda or cuda:1.")
    batch_tokens: int = _flag(4096, "Tokens of a batch at most.", 16)
    batch_s: float = _flag(0.25, "Seconds that a batch may take, from the speed of the last ones.", 0.001)
    batch_texts: int = _flag(256, "Texts of a batch at most.", 1)
    max_wait_s: float = _flag(2.0, "Answer 429 when a request would wait longer than this.", 0.01)
    max_queue: int = _flag(4096, "Answer 429 when this many texts wait.", 1)
    deadline_s: float = _flag(30.0, "Answer 504 after this; a request may ask for less with X-Deadline-Ms.", 0.1)
    max_body_bytes: int = _flag(2_000_000, "Answer 413 to a larger body.", 100)
    max_upload_bytes: int = _flag(50_000_000, "The same for task archives and rows to learn from.", 100)
    max_texts: int = _flag(256, "Texts of a request at most, and candidates of a row.", 1)
    max_characters: int = _flag(200_000, "Characters of a text at most.", 1)
    header_s: float = _flag(10.0, "Seconds a client has at most for a request's head.", 0.1)
    body_s: float = _flag(30.0, "Seconds a client has at most for a request's body, or to read an answer.", 0.1)
    keep_alive_s: float = _flag(30.0, "Seconds a connection may idle.", 0.1)
    max_connections: int = _flag(2048, "Connections at most.", 1)
    max_connections_per_address: int = _flag(1024, "Connections of one address at most.", 1)
    max_requests_per_key: int = _flag(256, "Requests of one key under way at most.", 1)
    silent_s: float = _flag(3.0, "A worker that says nothing for so long is replaced.", 0.2)
    start_s: float = _flag(120.0, "Seconds a worker has to load the model.", 1)
    drain_s: float = _flag(25.0, "Seconds that requests under way have after SIGTERM.", 0)
    change_nice: int = _flag(
        19, "How far changes of tasks step back for those who ask: 0, not at all, to 19, only time left over.", 0, 19
    )
    watch: bool = _flag(True, "Take over a new version of the model folder when one appears.")
    abstain_below: float = _flag(0.0, "Mark answers less probable than this, of 1, as abstentions.", 0, 1)
    moderation: str = _flag("", "What /v1/moderations flags: TASK=LABEL,TASK=LABEL; by default tasks of two labels.")
    quiet: bool = _flag(False, "No line a request on stderr.")

    def check(self, authenticated: bool) -> None:
        """Raise one ConfigError with what cannot be."""
        faults = []
        for item in fields(self):
            least, most, value = item.metadata["least"], item.metadata["most"], getattr(self, item.name)
            if least is not None and not (least <= value <= most and value < float("inf")):
                to = f" to {most:g}" if most < float("inf") else ""
                faults.append(f"--{item.name.replace('_', '-')} is {value}; possible: a number from {least:g}{to}.")
        if not 0 <= self.port < 65536:
            faults.append(f"--port is {self.port}; possible: 0 to 65535.")
        if not is_loopback(self.host) and not authenticated:
            faults.append(
                f"--host {self.host} can be reached from other machines, and there is no key: anyone could ask. Give "
                "--keys FILE (make a line for it with: onepass serve --make-key NAME), set ONEPASS_API_KEY, or listen "
                "on 127.0.0.1."
            )
        if faults:
            raise ConfigError("\n".join(faults))


def is_loopback(host: str) -> bool:
    """Whether an address is this machine's own.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
