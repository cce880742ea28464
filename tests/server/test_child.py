"""A worker process, seen from the server."""

import asyncio
import errno
import gc
import socket
import sys

import pytest

from onepass.server.child import Worker


class Ending:
    """A pool whose workers end at once."""

    batcher = None
    serving = False

    @property
    def launch(self) -> "Ending":
        return self

    def worker(self, descriptor: int, gently: bool) -> list[str]:
        return [sys.executable, "-c", ""]

    def environment(self) -> dict[str, str]:
        return {}

    def ended(self, worker: Worker) -> None:
        pass


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_what_is_left_of_a_worker_does_not_make_the_server_deaf_to_others() -> None:
    async def connections_heard() -> list[bytes]:
        loop = asyncio.get_running_loop()
        worker = Worker(Ending())  # type: ignore[arg-type]
        await worker.run()
        await asyncio.sleep(0.01)
        pairs = [socket.socketpair() for _ in range(8)]  # one of these gets the number of the worker's socket
        heard: list[bytes] = []
        for ours, _ in pairs:
            loop.add_reader(ours.fileno(), lambda ours=ours: heard.append(ours.recv(1)))
        del worker
        gc.collect()
        for number, (_, theirs) in enumerate(pairs):
            theirs.send(bytes([number]))
        await asyncio.sleep(0.2)
        for ours, theirs in pairs:
            loop.remove_reader(ours.fileno())
            ours.close()
            theirs.close()
        return sorted(heard)

    assert asyncio.run(connections_heard()) == [bytes([number]) for number in range(8)]


@pytest.mark.parametrize("what", ["process", "socket"])
def test_a_worker_that_cannot_be_started_says_why(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Missing(Ending):
        over = False

        def worker(self, descriptor: int, gently: bool) -> list[str]:
            raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

        def ended(self, worker: Worker) -> None:
            self.over = True

    async def told(pool: Missing) -> str:
        worker = Worker(pool)  # type: ignore[arg-type]
        if what == "socket":
            monkeypatch.setattr(socket, "socketpair", lambda: pool.worker(0, False))
        await worker.run()
        monkeypatch.undo()
        return str(worker.facts.exception())

    pool = Missing()
    assert "its process could not be started: Resource temporarily unavailable." in asyncio.run(told(pool))
    assert pool.over
