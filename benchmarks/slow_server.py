"""An HTTP server of files held in memory, which answers each request after a while.

`python slow_server.py FOLDER SECONDS` prints its address, and ends with its standard input.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any, ClassVar


class Answers(asyncio.Protocol):
    """Answers each GET with what it holds, after a while."""

    held: ClassVar[dict[str, bytes]] = {}
    delay = 0.0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        path = data.split(b" ", 2)[1].decode()
        asyncio.get_running_loop().call_later(self.delay, self.answer, self.held[path])

    def answer(self, body: bytes) -> None:
        head = (
            f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n"
            "Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\n\r\n"
        )
        self.transport.write(head.encode() + body)


async def serve(folder: str, delay: float) -> None:
    """Serve the files of a folder until standard input ends."""
    Answers.held = {f"/{file.name}": file.read_bytes() for file in Path(folder).iterdir()}
    Answers.delay = delay
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Answers, "127.0.0.1", 0, backlog=512)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], float(sys.argv[2])))
