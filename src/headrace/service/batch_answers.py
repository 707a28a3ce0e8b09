"""What was said of each item of a batch that came in one body under a key: the same request gets the same answer again.

    answers/17      a line with the counts, and then the verdicts as they were sent

Kept as long as idempotency keys are, and in bounded room: of more, the oldest are forgotten. A batch whose answer is
forgotten is answered without its items; what became of them is among its results.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

from headrace.service.views import Bound, ServiceLimits

_LEAST_BYTES = 4096
"""What a file takes at least: so the number of files is bounded, too."""

_SWEEP_S = 60.0


class BatchAnswers:
    """The folder. Any thread; `run` belongs to the loop.

    Args:
        folder: made with the first answer.
        limits: of the service; replaced as a whole by a reload.
    """

    def __init__(self, folder: Path, limits: ServiceLimits) -> None:
        self.limits = limits
        self._folder = folder
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, tuple[int, float]] = OrderedDict()  # bytes and when, the oldest first
        self._used_bytes = 0

    def load(self) -> None:
        """Finds what the last process left."""
        if not self._folder.is_dir():
            return
        with self._lock:
            for path in sorted(self._folder.iterdir(), key=lambda path: path.stat().st_mtime):
                if not path.name.isdigit():
                    path.unlink()
                    continue
                found = path.stat()
                self._count(int(path.name), found.st_size, found.st_mtime)

    async def run(self) -> None:
        """Forgets what is too old, until it is cancelled."""
        while True:
            with suppress(OSError):  # the disk cannot be written: the next start looks what is there
                await asyncio.to_thread(self.forget, time.time() - self.limits.idempotency_s)
            await asyncio.sleep(_SWEEP_S)

    async def keep(self, batch_id: int, told: Mapping[str, Any], verdicts: IO[bytes]) -> None:
        """Keeps an answer, durably. Where there is no room, it does not: then the batch is answered without its items.

        Args:
            batch_id: of the batch.
            told: the counts.
            verdicts: its items as they are sent, read from their beginning.
        """
        with suppress(OSError):
            await asyncio.to_thread(partial(self._keep, batch_id, told, verdicts))

    async def find(self, batch_id: int) -> tuple[dict[str, Any], IO[bytes]] | None:
        """The counts of a batch, and its verdicts from where the file stands; None when they are forgotten."""
        return await asyncio.to_thread(partial(self._find, batch_id))

    def forget(self, before: float) -> None:
        """Forgets what was kept before then (Unix time in seconds)."""
        with self._lock:
            while self._kept and next(iter(self._kept.values()))[1] < before:
                self._forget_oldest()

    def bound(self) -> Bound:
        """How much of the room is used."""
        return Bound("batch_answers", "bytes", self._used_bytes, self.limits.batch_answers_bytes, "set")

    def _keep(self, batch_id: int, told: Mapping[str, Any], verdicts: IO[bytes]) -> None:
        verdicts.seek(0, os.SEEK_END)
        size_bytes = verdicts.tell()
        if size_bytes > self.limits.batch_answers_bytes:
            return
        verdicts.seek(0)
        self._folder.mkdir(exist_ok=True)
        path = self._folder / str(batch_id)
        half = path.with_suffix(".half")
        with open(half, "wb") as file:
            file.write(json.dumps({**told, "bytes": size_bytes}).encode() + b"\n")
            shutil.copyfileobj(verdicts, file)
            file.flush()
            os.fsync(file.fileno())
        with self._lock:
            half.replace(path)
            self._count(batch_id, size_bytes, time.time())
            while self._used_bytes > self.limits.batch_answers_bytes and len(self._kept) > 1:
                self._forget_oldest()

    def _find(self, batch_id: int) -> tuple[dict[str, Any], IO[bytes]] | None:
        try:
            file = open(self._folder / str(batch_id), "rb")  # noqa: SIM115  # the answer closes it
        except OSError:
            return None
        try:
            told = json.loads(file.readline())
            size_bytes = told.pop("bytes")
            if os.fstat(file.fileno()).st_size - file.tell() == size_bytes:
                return told, file
        except (ValueError, KeyError, TypeError, AttributeError):
            pass  # not as we wrote it
        file.close()
        return None

    def _count(self, batch_id: int, size_bytes: int, at: float) -> None:
        before, _ = self._kept.pop(batch_id, (0, 0.0))
        taken = max(size_bytes, _LEAST_BYTES)
        self._kept[batch_id] = (taken, at)
        self._used_bytes += taken - before

    def _forget_oldest(self) -> None:
        batch_id, (size_bytes, _) = self._kept.popitem(last=False)
        self._used_bytes -= size_bytes
        (self._folder / str(batch_id)).unlink(missing_ok=True)
