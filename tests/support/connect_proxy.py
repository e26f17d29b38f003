"""A proxy that connects to whatever it is asked for, and passes on what it cannot read."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class ConnectProxy:
    """One that answers CONNECT alone."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        """What was asked for, as host:port."""
        self.headers: list[bytes] = []
        """All that could be read of each request."""
        self.passed_on = bytearray()
        """What clients sent behind it."""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Closes the connection also where it is cancelled: the transport would be left to the
        garbage collector, whose warning fails whatever test runs then.
        """
        try:
            await self._relay(reader, writer)
        except asyncio.IncompleteReadError:
            return  # whoever connected has asked for nothing
        finally:
            writer.close()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        method, target, _ = head.decode().split(" ", 2)
        assert method == "CONNECT", head
        self.asked.append(target)
        self.headers.append(head)
        host, _, port = target.rpartition(":")
        server_reader, server_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(
            _pass_on(reader, server_writer, self.passed_on),
            _pass_on(server_reader, writer, bytearray()),
        )


async def _pass_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seen: bytearray
) -> None:
    try:
        while data := await reader.read(65_536):
            seen.extend(data)
            writer.write(data)
    except ConnectionError:
        pass  # as if it had been closed
    finally:
        writer.close()


@asynccontextmanager
async def serve_connect_proxy() -> AsyncIterator[tuple[ConnectProxy, str]]:
    """The proxy and its address."""
    proxy = ConnectProxy()
    server = await asyncio.start_server(proxy.handle, "127.0.0.1", 0)
    try:
        yield proxy, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await server.wait_closed()
