"""Running a server: the address, signals, and the end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import resource
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvicorn

from onepass.errors import ConfigError, listed, unknown
from onepass.server.app import create_app
from onepass.server.folder import describe, revision_of
from onepass.server.keys import Keyring
from onepass.server.priority import prompt, settle
from onepass.server.protocol import guarded_protocol
from onepass.server.service import Service
from onepass.server.settings import Settings

log = logging.getLogger("onepass.server")


WAITING, AT_ONCE = 2048, 1
"""Connections that may wait to be accepted, and those accepted before others have their turn again.

A new connection may cost more than all that is under way needs in a turn, and a request takes five turns."""

FILES_BESIDE = 128  # connections: to workers, and what is read and written


class _Server(uvicorn.Server):
    """uvicorn's server without its signal handlers, and with a longer queue than it accepts from in one go."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(WAITING)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def serve(folder: Path, settings: Settings, say: Callable[[str], None]) -> None:
    """Serve a model folder until a signal; raises what is the user's to mend."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    keys = Keyring.read(settings.keys, os.environ.pop("ONEPASS_API_KEY", ""))
    admin_keys = Keyring.read(settings.admin_keys, os.environ.pop("ONEPASS_ADMIN_KEY", ""), "ONEPASS_ADMIN_KEY")
    settings.check(authenticated=bool(keys))
    settings = with_room(settings)
    revision_of(folder)
    _check_moderation(settings.moderation, describe(folder)["tasks"])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    prompt()
    with listen_on(settings) as listener:
        asyncio.run(_serve(folder, settings, keys, admin_keys, listener, say))


def with_room(settings: Settings) -> Settings:
    """The settings with no more connections than files may be open, of which as many are allowed as can be.

    Where there are none left, connections would wait unheard, and no lost worker could be replaced.
    """
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = settings.max_connections + FILES_BESIDE
    if files != resource.RLIM_INFINITY and files < wanted:
        files = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))
        if files < wanted:
            fewer = max(files - FILES_BESIDE, files // 2)
            log.warning("%d files may be open here (ulimit -n): --max-connections is %d.", files, fewer)
            return replace(settings, max_connections=fewer)
    return settings


def _check_moderation(text: str, tasks: list[dict[str, Any]]) -> None:
    single = [task for task in tasks if task["scored"] and task["texts"] == 1]
    known = {f"{task['name']}={label}" for task in single for label in task["labels"]}
    given = [part.strip() for part in text.split(",") if part.strip()]
    if faults := [f"--moderation: {unknown('task and label', part, known)}" for part in given if part not in known]:
        raise ConfigError(listed(faults))


def listen_on(settings: Settings) -> socket.socket:
    """A socket at the address that is set; connections come when uvicorn listens on it."""
    try:
        info = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.socket(info[0], info[1])
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(info[4])
    except OSError as error:
        of_the_host = isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL
        advice = f"Choose another with --{'host' if of_the_host else 'port'}."
        raise ConfigError(
            f"Cannot listen on {settings.host}, port {settings.port}: {error.strerror}. {advice}"
        ) from error
    return listener


async def _serve(
    folder: Path,
    settings: Settings,
    keys: Keyring,
    admin_keys: Keyring,
    listener: socket.socket,
    say: Callable[[str], None],
) -> None:
    service = Service(folder, settings, keys, admin_keys)
    config = uvicorn.Config(
        create_app(service),
        http=guarded_protocol(settings, service.metrics),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=settings.keep_alive_s,  # type: ignore[arg-type]
        timeout_graceful_shutdown=settings.drain_s,  # type: ignore[arg-type]
        backlog=AT_ONCE,
    )
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    settle()
    server = _Server(config)
    loop = asyncio.get_running_loop()

    def drain() -> None:
        service.pool.draining = server.should_exit = True
        with contextlib.suppress(OSError):  # a terminal that was closed
            say("Stopping: requests under way are answered first. Once more stops at once.")

    def stop() -> None:
        if server.should_exit:  # asked twice: at once
            service.pool.kill_all()
            os._exit(143)
        drain()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as nohup has it
        loop.add_signal_handler(signal.SIGHUP, drain)  # a closed terminal may send it twice
    watching = asyncio.create_task(service.pool.watch())
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    first = asyncio.ensure_future(asyncio.shield(service.pool.first))
    try:
        say(f"Loading {folder}.")
        await asyncio.wait({serving, first, watching}, return_when=asyncio.FIRST_COMPLETED)
        if first.done():
            first.result()  # raises what is wrong with the folder
            host, port = listener.getsockname()[:2]
            name = f"[{host}]" if ":" in host else host
            say(f"Serving {folder} on http://{name}:{port}")
        await asyncio.wait({serving, watching}, return_when=asyncio.FIRST_COMPLETED)
        if watching.done():
            watching.result()
        await serving
    finally:
        first.cancel()
        watching.cancel()
        if not serving.done():
            server.should_exit = server.force_exit = True
            await asyncio.wait({serving}, timeout=5)
        await service.close()
