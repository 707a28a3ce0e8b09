"""How many documents a second the service's core accepts durably, without HTTP, beside what the disk can do.

    python bench/accept_core.py [--documents 4000] [--bytes 100000]

In one run: the disk's own rate of small synced appends; a file with its own sync for each document, in a thread (the
usual recipe); and `Reception.accept` (bytes and row on disk) with 16, 64 and 256 clients, while nothing is read (the
dispatcher takes nothing), and once while two workers read with the engine that reads nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

from headrace.flow import Admitted, ServiceClass
from headrace.flow.machine import Machine
from headrace.ingest.bounds import derive
from headrace.ingest.engine_costs import ENGINE_COSTS
from headrace.ingest.settings import RunSettings
from headrace.service.reception import Reception, ServiceLimits, Submission

PIECE_BYTES = 65536  # what a server hands on at a time


def synced_appends_per_s(folder: Path, count: int = 500) -> float:
    descriptor = os.open(folder / "appends", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    began = time.perf_counter()
    for _ in range(count):
        os.write(descriptor, b"x" * 4096)
        os.fdatasync(descriptor)
    os.close(descriptor)
    return count / (time.perf_counter() - began)


async def synced_files_per_s(folder: Path, content: bytes, count: int = 1000, clients: int = 64) -> float:
    def write(number: int) -> None:
        descriptor = os.open(folder / f"file-{number}", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        os.write(descriptor, content)
        os.fsync(descriptor)
        os.close(descriptor)

    numbers = iter(range(count))

    async def client() -> None:
        for number in numbers:
            await asyncio.to_thread(write, number)

    began = time.perf_counter()
    await asyncio.gather(*[client() for _ in range(clients)])
    return count / (time.perf_counter() - began)


async def accepts(folder: Path, documents: int, size_bytes: int, clients: int, *, reading: bool) -> str:
    settings = RunSettings(workspace=folder / f"ws-{clients}-{reading}", engine="null", workers=2)
    bounds = derive(settings, Machine.read(), ENGINE_COSTS["null"])
    limits = ServiceLimits(documents=2 * documents, min_free_bytes=0)
    reception = Reception(settings, bounds, limits)
    if not reading:
        reception._line.take = lambda most: []  # type: ignore[method-assign]
    running = asyncio.create_task(reception.run())
    await reception.opened()
    start = b"\xff\xd8\xff" + os.urandom(size_bytes - 19)
    numbers, took_s = iter(range(documents)), []

    async def body(number: int) -> AsyncIterator[bytes]:
        content = start + b"%016d" % number
        for at in range(0, len(content), PIECE_BYTES):
            yield content[at : at + PIECE_BYTES]

    async def client() -> None:
        for number in numbers:
            began = time.perf_counter()
            submission = Submission("bench", ServiceClass.INTERACTIVE, declared_bytes=size_bytes)
            decision = reception.decide(submission)
            assert isinstance(decision, Admitted), decision
            await reception.accept(submission, decision.permit, body(number))
            took_s.append(time.perf_counter() - began)

    began, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*[client() for _ in range(clients)])
    elapsed_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu
    took_s.sort()
    done = reception.capacity().done
    await reception.stop(30)
    await running
    return (
        f"{clients:4d} clients{', workers reading' if reading else '':17s} {documents / elapsed_s:7,.0f} accepts/s   "
        f"p50 {took_s[len(took_s) // 2] * 1e3:6.1f} ms   p99 {took_s[len(took_s) * 99 // 100] * 1e3:6.1f} ms   "
        f"{cpu_s / documents * 1e6:4.0f} us of processor each   {done} read meanwhile"
    )


async def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("--documents", type=int, default=4000)
    options.add_argument("--bytes", type=int, default=100_000)
    given = options.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="headrace-accept-"))
    try:
        print(f"disk: {synced_appends_per_s(folder):,.0f} synced appends of 4 KiB a second")
        per_s = await synced_files_per_s(folder, os.urandom(given.bytes))
        print(f"a file and a sync for each, in threads, no database: {per_s:,.0f} documents/s")
        for clients in (16, 64, 256):
            print(await accepts(folder, given.documents, given.bytes, clients, reading=False))
        print(await accepts(folder, given.documents, given.bytes, 64, reading=True))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    asyncio.run(main())
