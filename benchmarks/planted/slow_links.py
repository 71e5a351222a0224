"""A network between workers of one machine in which the links of one worker can be slow.

Each worker reaches each other one through a proxy of its own, which passes bytes on after a while.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterable
from contextlib import suppress

CHUNK_BYTES = 1 << 16


class SlowLinks:
    """Proxies between all pairs of workers, on a thread of its own.

    Messages to and from the worker `slow` are late by `delay_s` each way.
    """

    def __init__(self, ports: list[int]) -> None:
        self.slow: int | None = None
        self.delay_s = 0.0
        self._ports = ports
        self._proxies: dict[tuple[int, int], int] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()

    def addresses(self, worker: int) -> list[str]:
        """Where a worker finds all of them: itself directly, the others through proxies."""
        return [
            f"127.0.0.1:{port if peer == worker else self._proxies[worker, peer]}"
            for peer, port in enumerate(self._ports)
        ]

    def close(self) -> None:
        """Ends the thread, and with it all connections."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def _listen(self) -> None:
        for worker in range(len(self._ports)):
            for peer in range(len(self._ports)):
                if worker != peer:
                    server = await asyncio.start_server(self._connect(worker, peer), "127.0.0.1", 0)
                    self._proxies[worker, peer] = server.sockets[0].getsockname()[1]

    def _connect(self, worker: int, peer: int):  # type: ignore[no-untyped-def]
        ends = (worker, peer)

        async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                to_peer = await asyncio.open_connection("127.0.0.1", self._ports[peer])
            except OSError:  # it has not started yet; the worker tries again
                writer.close()
                return
            await asyncio.gather(
                self._pass_on(reader, to_peer[1], ends), self._pass_on(to_peer[0], writer, ends)
            )

        return connect

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, ends: Iterable[int]
    ) -> None:
        waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def take() -> None:
            data = b"first"
            while data:
                data = b""
                with suppress(OSError):
                    data = await reader.read(CHUNK_BYTES)
                delay_s = self.delay_s if self.slow in ends else 0.0
                waiting.put_nowait((self._loop.time() + delay_s, data))

        taking = asyncio.ensure_future(take())
        with suppress(OSError):
            while True:
                due_s, data = await waiting.get()
                if not data:
                    break
                if (early_s := due_s - self._loop.time()) > 0:
                    await asyncio.sleep(early_s)
                writer.write(data)
                await writer.drain()
        writer.close()
        await taking


def free_ports(count: int) -> list[int]:
    """Ports that no process listens on at the moment."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [sock.getsockname()[1] for sock in sockets]
    for sock in sockets:
        sock.close()
    return ports
