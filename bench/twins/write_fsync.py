"""Durable without a database: a bare ASGI handler that hands the body to a thread, which writes, syncs and renames it.

    python bench/twins/write_fsync.py --port P --folder DIR

The file is synced, and the folder after the rename: what headrace does for the bytes, without a row, a digest or an order.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import uvicorn

_HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"2")]


class App:
    def __init__(self, folder: Path, threads: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._folder_fd = os.open(folder, os.O_RDONLY)
        self._numbers = itertools.count()
        self._threads = ThreadPoolExecutor(threads)

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        pieces = []
        more = True
        while more:
            message = await receive()
            pieces.append(message.get("body", b""))
            more = message.get("more_body", False)
        await asyncio.get_running_loop().run_in_executor(self._threads, self._keep, pieces)
        await send({"type": "http.response.start", "status": 202, "headers": _HEADERS})
        await send({"type": "http.response.body", "body": b"{}"})

    def _keep(self, pieces: list[bytes]) -> None:
        path = self._folder / str(next(self._numbers))
        with open(f"{path}.part", "wb", buffering=0) as file:
            for piece in pieces:
                file.write(piece)
            os.fsync(file.fileno())
        os.rename(f"{path}.part", path)
        os.fsync(self._folder_fd)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=8)
    options = parser.parse_args()
    app: Any = App(options.folder, options.threads)
    uvicorn.run(app, port=options.port, log_level="warning", access_log=False, lifespan="off")
