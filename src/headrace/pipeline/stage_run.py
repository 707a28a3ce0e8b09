"""One stage while it runs: takes items in, gives them to its workers, and hands the results on.

    inbound channel --take_in--> line + waiting --workers--> settled in the line --hand_on--> next channel

Everything that was taken in is in the line until the next channel has it, so the count of the line is exact at every
await. Failures of earlier stages are settled when they come in: they keep their place and flow by.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from headrace.execution import Failure
from headrace.flow import Empty, Ended, WaitLine
from headrace.pipeline.crew import Crew
from headrace.pipeline.door import Door
from headrace.pipeline.lanes import failed
from headrace.pipeline.passage import Line, Passage
from headrace.pipeline.stage import Stage
from headrace.pipeline.statistics import StageStatistics

_RATE_OVER = 64  # items
_OVER_S = 1e-6  # a timer may fire this early


class _Ask:
    """A worker that waits for something to do, and what it was given."""

    __slots__ = ("group",)

    def __init__(self) -> None:
        self.group: list[Passage] = []


class StageRun:
    """The running form of a stage; belongs to one `Run`, which starts and ends its tasks.

    Args:
        stage: what to run.
        into: the door into its own channel.
        onward: the door into the next one.
        on_failed: called when an item has failed here.
        start: starts a task that belongs to the run.
    """

    def __init__(
        self,
        stage: Stage,
        into: Door,
        onward: Door,
        *,
        on_failed: Callable[[Passage], None],
        start: Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]],
    ) -> None:
        self.stage = stage
        self.into = into
        self._onward = onward
        self._on_failed = on_failed
        self._start = start
        self._loop = asyncio.get_running_loop()
        self._line = Line(stage.ordered)
        self._waiting: deque[Passage] = deque()  # taken in and not begun; bounded by the line
        self._asks: WaitLine[_Ask] = WaitLine(self._serve, self._take_back)
        self.crew = Crew(stage, self, start)
        self._timer: asyncio.TimerHandle | None = None
        self._want_more = asyncio.Event()  # room in the line, or a worker has nothing to do
        self._ready = asyncio.Event()  # something waits for room, or nothing more will come
        self._sending = False
        self._turn = 0
        self._weigh = None if stage.batching is None else stage.batching.weigh
        self._completions: deque[float] = deque(maxlen=_RATE_OVER)
        self.done = self.failed = self.passed = self.retried = 0
        self.idle_since: float | None = self._loop.time()
        self.paused = False
        self.ended = False

    @property
    def window(self) -> int:
        """How many items may be taken in and not handed on."""
        return self.stage.window_for(self.crew.count)

    @property
    def held(self) -> int:
        """How many are."""
        return len(self._line)

    # Beginning and changing

    async def open(self) -> None:
        """Makes the workers; returns when what they need is loaded. What that raises leaves nothing behind."""
        await self.crew.open()

    def begin(self) -> None:
        """Starts to move items."""
        self._start(self._take_in(), f"{self.stage.name} in")
        self._start(self._hand_on(), f"{self.stage.name} out")

    async def resize(self, workers: int) -> None:
        """See `Crew.resize`."""
        await self.crew.resize(workers)
        self._want_more.set()

    def pause(self, paused: bool) -> None:
        """Begins no call, or does so again."""
        self.paused = paused
        self._asks.advance()
        self._want_more.set()

    def close(self) -> None:
        """Begins nothing more."""
        self.crew.closed = True
        self._stop_timer()

    async def aclose(self) -> None:
        """Ends what the workers share, once their tasks have ended."""
        await self.crew.aclose()

    # Coming in

    async def _take_in(self) -> None:
        """Takes from the channel what the workers can begin, and not one item more."""
        while True:
            while (count := self._wanted()) <= 0:
                self._want_more.clear()
                await self._want_more.wait()
            try:
                passages = await self.into.receiver.recv_many(count)
            except Ended:
                break
            for passage in passages:
                self._admit(passage)
            self._asks.advance()
        self.ended = True
        self._asks.advance()
        self._ready.set()

    def _wanted(self) -> int:
        return self._room_for(len(self._asks))

    def _room_for(self, idle: int) -> int:
        """How many items make sense to be taken in when so many workers have nothing to do."""
        if self.paused or not idle:
            return 0
        batching = self.stage.batching
        most = idle if batching is None else batching.sight
        return min(self.window - len(self._line), most - len(self._waiting))

    def _take_now(self) -> bool:
        """Takes in what is there, for the one worker that asks; says whether anything waits then."""
        try:
            for _ in range(self._room_for(1)):
                self._admit(self.into.receiver.try_recv())
        except (Empty, Ended):
            pass
        return bool(self._waiting)

    def _admit(self, passage: Passage) -> None:
        self.idle_since = None
        self._turn += 1
        passage.turn = self._turn
        passage.settled = passage.failure is not None
        if passage.failure is None and self._weigh is not None:
            try:
                passage.batch_weight = self._weigh(passage.value)
            except Exception as error:
                self._count_failed(passage, failed(passage.item, error, 0.0))
        elif passage.failure is not None and passage.failure.stage != self.stage.name:
            self.passed += 1
        elif passage.failure is not None:  # it could not be weighed at the door
            self.failed += 1
            self._on_failed(passage)
        self._line.admit(passage)
        if passage.settled:
            self._flow()
        else:
            self._waiting.append(passage)

    # Working

    async def next_group(self) -> list[Passage]:
        """Waits for something to do. Cancelled, what it had been given goes to another worker."""
        ask = _Ask()
        if self._asks.waiting or not (self._take_now() and self._serve(ask)):
            self._want_more.set()
            await self._asks.wait(ask)
        return ask.group

    def _serve(self, ask: _Ask) -> bool:
        if self.paused or not self._waiting:
            return False
        batching = self.stage.batching
        if batching is None:
            ask.group = [self._waiting.popleft()]
            return True
        now, due = self._loop.time(), self._waiting[0].entered_at + batching.linger_s
        may_grow = not self.ended and len(self._line) < self.window and len(self._waiting) < batching.sight
        final = not may_grow or now >= due - _OVER_S
        chosen = batching.choose([passage.batch_weight for passage in self._waiting], final=final)
        if chosen is None:
            if self._timer is None or self._timer.when() != due or self._timer.cancelled():
                self._stop_timer()
                self._timer = self._loop.call_at(due, self._linger_over)
            return False
        self._stop_timer()
        ask.group = [self._waiting[place] for place in chosen]
        if len(chosen) == chosen[-1] + 1:
            for _ in chosen:
                self._waiting.popleft()
        else:
            begun = set(chosen)
            self._waiting = deque(passage for place, passage in enumerate(self._waiting) if place not in begun)
        return True

    def _take_back(self, ask: _Ask) -> None:
        self._waiting = deque(sorted([*ask.group, *self._waiting], key=lambda passage: passage.turn))
        ask.group = []

    def _linger_over(self) -> None:
        self._timer = None
        self._asks.advance()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def settle(self, passage: Passage, outcome: Any, attempt: int) -> None:
        """A worker has an outcome for an item."""
        if isinstance(outcome, Failure):
            self._count_failed(passage, outcome, attempt)
        else:
            passage.take(outcome, self.stage.name, attempt)
            self.done += 1
        self._completions.append(self._loop.time())
        self._line.settled(passage)
        self._flow()

    def _count_failed(self, passage: Passage, failure: Failure[Any], attempt: int = 1) -> None:
        passage.take(failure, self.stage.name, attempt)
        self.failed += 1
        self._on_failed(passage)

    # Going out

    def _flow(self) -> None:
        """Hands on what can go without waiting; leaves the rest to the task that waits for room."""
        while not self._sending:
            passage = self._line.next()
            if passage is None:
                if not len(self._line):
                    self.idle_since = self._loop.time()
                return
            if not self._onward.try_send(passage):
                self._ready.set()
                return
            self._remove(passage)

    async def _hand_on(self) -> None:
        """Hands on what has to wait for room, one after the other, and in the end closes the door."""
        while True:
            passage = self._line.next()
            if passage is not None:
                self._sending = True
                try:
                    await self._onward.send(passage)
                finally:
                    self._sending = False
                self._remove(passage)
                self._flow()
            elif self._nothing_more():
                break
            else:
                self._ready.clear()
                await self._ready.wait()
        self._onward.close()

    def _nothing_more(self) -> bool:
        return self.ended and not len(self._line)

    def _remove(self, passage: Passage) -> None:
        self._line.remove(passage)
        if self._asks.waiting:
            self._want_more.set()
        if self._nothing_more():
            self._ready.set()

    # Looking

    def at_work(self) -> int:
        """How many items a call is working on, or has given up on, that have no outcome yet."""
        return self.crew.at_work()

    def statistics(self, now: float) -> StageStatistics:
        """A snapshot."""
        stage, into, onward = self.stage, self.into.statistics(), self._onward
        free, behind = self._line.count_settled()
        oldest_in = self._line.oldest
        permits = None if stage.permits is None else stage.permits.statistics()
        times = self._completions

        def count_and_age(moments: list[float | None]) -> tuple[int, float | None]:
            known = [moment for moment in moments if moment is not None]
            return len(known), now - min(known) if known else None

        running, longest_s = count_and_age([worker.running_since for worker in self.crew])
        for_permit, permit_s = count_and_age([worker.permit_since for worker in self.crew])
        backing_off, _ = count_and_age([worker.backing_off_since for worker in self.crew])
        given_up, given_up_s = count_and_age([worker.lane.given_up_at for worker in self.crew])
        return StageStatistics(
            name=stage.name,
            depth=into.depth,
            limit=into.limit,
            weight=into.weight,
            weight_limit=into.weight_limit,
            workers=self.crew.count,
            running=running,
            longest_s=longest_s,
            held=len(self._line),
            window=self.window,
            gathering=len(self._waiting),
            gathering_s=now - self._waiting[0].entered_at if self._waiting else None,
            behind=behind,
            for_room=free,
            blocked_s=None if onward.blocked_since is None else now - onward.blocked_since,
            for_permit=for_permit,
            permit_s=permit_s,
            permits_held=0 if permits is None else permits.held,
            permits_limit=None if permits is None else permits.limit,
            backing_off=backing_off,
            given_up=given_up,
            given_up_s=given_up_s,
            done=self.done,
            failed=self.failed,
            passed=self.passed,
            retried=self.retried,
            oldest_age_s=max(into.oldest_age_s, 0.0 if oldest_in is None else now - oldest_in.entered_at),
            rate_per_s=len(times) / (now - times[0]) if times and now > times[0] else 0.0,
            idle_s=None if self.idle_since is None or into.depth else now - self.idle_since,
            paused=self.paused,
            ended=self.ended,
        )
