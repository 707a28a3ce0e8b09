"""Workers without processes, for schedules: they answer, die, hang and come back as a seed says, in virtual time.

Only the process is replaced: what the map does with replies, losses and orders to stop is the code that runs here.
"""

from __future__ import annotations

import asyncio
import pickle
import random
from collections import Counter, deque
from time import monotonic_ns
from typing import Any

from headrace.execution.options import MapOptions
from headrace.execution.ordered import MapResults
from headrace.execution.outcome import DEADLINE, EXCEPTION, UNPICKLABLE_RESULT, WORKER_LOST, Raised
from headrace.execution.process import End, Reply, WorkerProcess
from headrace.execution.window import Chunk
from headrace.execution.wire import NO_CEILING, Doing, Kind

UNREADABLE = b"not a pickle"
FATES = {"ok": None, "raises": EXCEPTION, "lambda": UNPICKLABLE_RESULT, "dies": WORKER_LOST, "hangs": DEADLINE}


class Script:
    """What happens to each item, and what did happen.

    Attributes:
        fates: of the items that come to something else than a result.
        charged: runs that ended badly, by item.
        lost: of those, the ones whose worker was killed from outside.
    """

    def __init__(self, choose: random.Random, count: int) -> None:
        self.choose = choose
        bad = choose.choice([0.0, 0.05, 0.3])
        self.fates = {n: choose.choice(list(FATES)[1:]) for n in range(count) if choose.random() < bad}
        self.charged: Counter[int] = Counter()
        self.lost: set[int] = set()
        self.slow = choose.choice([0.0, 0.1])


class ScriptedWorker:
    """The face of a `WorkerProcess` that a map sees."""

    adapt_depth: Any = WorkerProcess.adapt_depth
    reset_depth: Any = WorkerProcess.reset_depth

    def __init__(self, pool: ScriptedPool, pid: int, quota: int | None) -> None:
        self.pool, self.pid, self.quota = pool, pid, quota
        self.in_flight: deque[Chunk[Any, Any]] = deque()
        self.usable, self.gone = True, False
        self.depth, self.chunk_ns, self.progress = 1, None, None
        self._ceiling = NO_CEILING
        self._doing: Doing | None = None
        self._given: deque[tuple[Chunk[Any, Any], bytes]] = deque()
        self._sent = asyncio.Event()
        self._task = asyncio.create_task(self._serve())

    def give(self, chunk: Chunk[Any, Any], payload: bytes) -> None:
        assert self.usable
        assert len(self.in_flight) < self.depth
        assert self.quota is None or 0 < len(chunk.items) <= self.quota or chunk.attempts or self.pool.lossy
        self.in_flight.append(chunk)
        if self.quota is not None:
            self.quota -= len(chunk.items)
        self._given.append((chunk, payload))

    def flush(self) -> None:
        if self._given:
            self._sent.set()

    def doing(self) -> Doing | None:
        return self._doing

    def set_ceiling(self, position: int) -> None:
        self._ceiling = position

    def discard(self, end: End) -> None:
        self.in_flight.clear()
        self.end(end)

    def end(self, end: End) -> None:
        if not self.gone:
            self.usable, self.gone = False, True
            self._task.cancel()
            asyncio.get_running_loop().call_soon(self.pool.on_exit, self, end)

    async def _serve(self) -> None:
        while True:
            while not self._given:
                self._sent.clear()
                await self._sent.wait()
            chunk, payload = self._given.popleft()
            items = pickle.loads(payload)
            reply = await self._run(chunk, items if len(chunk.items) > 1 else [items])
            if reply is None:
                return
            self._doing = None
            assert self.in_flight.popleft() is chunk
            if self.pool.attached is not None:
                self.pool.attached.on_replies(self, [reply])

    async def _run(self, chunk: Chunk[Any, Any], items: list[int]) -> Reply | None:
        script = self.pool.script
        values, elapsed, errors = [], [], {}
        if chunk.position > self._ceiling:
            return chunk, Kind.RETURNED, 0, b""
        total_ns = 0
        for place, item in enumerate(items):
            self._doing = Doing(chunk.position, place, monotonic_ns())
            item_ns = 60_000_000 if script.choose.random() < script.slow else 20_000
            await asyncio.sleep(script.choose.choice([0.0, item_ns / 1e9]))
            total_ns += item_ns
            elapsed.append(item_ns / 1e9)
            fate = script.fates.get(item, "ok")
            if fate in ("dies", "hangs"):
                await asyncio.sleep(1.0 if fate == "hangs" else 0.0)
                script.charged[item] += 1
                self.end(End(FATES[fate] or "", fate))
                return None
            values.append(-item)
            if fate == "raises":
                errors[place] = pickle.dumps((Raised(EXCEPTION, "raised"), None))
            elif fate == "lambda":
                errors[place] = pickle.dumps((Raised(UNPICKLABLE_RESULT, "a lambda"), None))
            script.charged[item] += place in errors
        if len(items) > 1:
            return chunk, Kind.VALUES, total_ns, pickle.dumps((values, elapsed, errors))
        if errors:
            return chunk, Kind.ERROR, total_ns, errors[0]
        return chunk, Kind.VALUE, total_ns, pickle.dumps(values[0])

    def kill(self) -> None:
        """From outside, at any moment: the item it is on pays."""
        if self.gone:
            return
        doing = self._doing
        if doing is not None:
            chunk = next(chunk for chunk in self.in_flight if chunk.position == doing.position)
            item = chunk.items[doing.place or 0]
            self.pool.script.charged[item] += 1
            self.pool.script.lost.add(item)
        self.end(End(WORKER_LOST, "killed"))


class ScriptedPool:
    """The face of a `WorkerPool` that a map sees."""

    def __init__(self, script: Script, workers: int, depth: int | None, quota: int | None, *, lossy: bool) -> None:
        self.script, self.workers, self.depth, self.lossy = script, workers, depth, lossy
        self._quota = quota
        self._pids = 0
        self.live: list[Any] = []
        self.attached: Any = None
        self.closed = False
        for _ in range(workers):
            self._spawn()

    def _spawn(self) -> None:
        if self.closed:
            return
        self._pids += 1
        worker = ScriptedWorker(self, self._pids, self._quota)
        self.live.append(worker)
        if self.attached is not None:
            self.attached.fill()

    def map(self, source: Any, **options: Any) -> MapResults[Any, Any]:
        return MapResults(self, source, MapOptions(**options))  # type: ignore[arg-type]

    async def attach(self, results: Any) -> None:
        self.attached = results

    def detach(self, results: Any) -> None:
        self.attached = None
        for worker in self.live:
            worker.set_ceiling(NO_CEILING)

    def watch(self) -> None:
        pass

    def recycle(self, worker: ScriptedWorker) -> None:
        assert not worker.in_flight
        worker.end(End("recycled-count", "it has run as many items as it may"))

    def on_exit(self, worker: ScriptedWorker, end: End) -> None:
        self.live.remove(worker)
        if self.attached is not None:
            self.attached.on_lost(worker, end)
        asyncio.get_running_loop().call_later(self.script.choose.choice([0.0, 0.3]), self._spawn)

    async def close(self) -> None:
        self.closed = True
        for worker in tuple(self.live):
            worker.end(End("closed", "closed"))
        await asyncio.sleep(1.0)
        assert not self.live
