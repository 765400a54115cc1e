#!/usr/bin/env python3
"""A server and a client on asyncio, which waits by epoll; they know nothing of RDMA.

    asyncio_echo.py server ADDRESS PORT CONNECTIONS [--killed]
    asyncio_echo.py client ADDRESS PORT CONNECTIONS [--killed]

The server echoes what each connection sends until its end. Each client connects, sends blocks of several sizes in
one direction while it reads the other, and half closes. `--killed`: the server ends itself, without closing, when all
are connected, and each client must notice.
"""

import asyncio
import hashlib
import os
import selectors
import signal
import sys

BLOCKS = [1, 7, 4096, 65_536, 300_000]
SECONDS = 40


async def serve(address, port, connections, is_killed):
    left = connections
    finished = asyncio.Event()

    async def echo(reader, writer):
        nonlocal left
        if is_killed:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
        writer.close()
        await writer.wait_closed()
        left -= 1
        if left == 0:
            finished.set()

    server = await asyncio.start_server(echo, address, port, backlog=connections)
    await finished.wait()
    server.close()


async def connect(address, port, is_killed):
    reader, writer = await asyncio.open_connection(address, port)
    assert writer.get_extra_info("peername")[1] == port
    if is_killed:
        try:
            assert await reader.read(1) == b""
        except ConnectionError:
            pass
        writer.close()
        return
    received = hashlib.sha256()

    async def read_all():
        while data := await reader.read(10_000):
            received.update(data)

    reading = asyncio.create_task(read_all())
    sent = hashlib.sha256()
    for size in BLOCKS:
        block = os.urandom(size)
        sent.update(block)
        writer.write(block)
        await writer.drain()
    writer.write_eof()
    await reading
    assert received.digest() == sent.digest()
    writer.close()
    await writer.wait_closed()


async def main():
    role, address, port, connections, *rest = sys.argv[1:]
    loop = asyncio.get_running_loop()
    assert isinstance(loop._selector, selectors.EpollSelector)  # pylint: disable=protected-access
    is_killed = bool(rest)
    if role == "server":
        await asyncio.wait_for(serve(address, int(port), int(connections), is_killed), SECONDS)
    else:
        all_of_them = [connect(address, int(port), is_killed) for _ in range(int(connections))]
        await asyncio.wait_for(asyncio.gather(*all_of_them), SECONDS)


if __name__ == "__main__":
    asyncio.run(main())
