"""What the fused door promises: exactly what rate, permits and channel would, one after the other."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headrace.flow import Closed, Empty, Ended, Ending, Expired, Full, PermitSpent, Rate, TokenBucket
from headrace.flow.drain_rate import RetryAfter
from headrace.flow.intake import Intake
from headrace.flow.testing import (
    Schedule,
    VirtualLoop,
    assert_nothing_leaked,
    cancelled_at,
    outcome_of,
    run_schedules,
    run_virtual,
    turns,
)
from headrace.flow.work import Batch, Work


def test_an_item_holds_its_permit_until_its_work_ends() -> None:
    async def main() -> None:
        intake: Intake[str] = Intake(2)
        await intake.admit("a")
        intake.try_admit("b")
        with pytest.raises(Full) as refused:
            intake.try_admit("c")
        assert refused.value.item == "c"
        assert type(refused.value.retry_after_s) is int
        work = await intake.recv()
        with pytest.raises(Full):
            intake.try_admit("c")  # received, and still in flight
        waiting = asyncio.create_task(intake.admit("c"))
        await turns(2)
        with work as item:
            assert item == "a"
            assert not waiting.done()
        await turns(2)
        assert waiting.done()
        for again in (work.done, work.ignore, work.dropped):
            with pytest.raises(PermitSpent):
                again()
        with pytest.raises(PermitSpent), work:
            pass
        assert [(await intake.recv()).item for _ in range(2)] == ["b", "c"]

    with pytest.warns(ResourceWarning):
        run_virtual(main())


def test_capacity_bounds_those_who_wait_and_limit_those_in_flight() -> None:
    async def main() -> None:
        intake: Intake[int] = Intake(3, capacity=2)
        intake.try_admit(0)
        intake.try_admit(1)
        with pytest.raises(Full):
            intake.try_admit(2)
        waiting = asyncio.create_task(intake.admit(2))
        await turns(2)
        first = await intake.recv()
        await turns(2)
        assert waiting.done()
        with pytest.raises(Full):
            intake.try_admit(3)
        first.done()
        with pytest.raises(Full):
            intake.try_admit(3)
        (await intake.recv()).done()
        intake.try_admit(3)
        (await intake.recv_many(9)).done()
        assert intake.held == 0

    run_virtual(main())


@pytest.mark.parametrize(
    ("error", "counted"),
    [(None, "done"), (TimeoutError(), "dropped"), (Expired(), "dropped"), (ValueError(), "ignored")],
)
@pytest.mark.parametrize("by", ["work", "batch", "lane"])
def test_how_a_block_ends_tells_how_its_permits_end(error: BaseException | None, counted: str, by: str) -> None:
    async def main() -> None:
        observed: list[tuple[Ending, float]] = []
        intake: Intake[int] = Intake(4, observe=lambda ending, held_s: observed.append((ending, held_s)))
        intake.try_admit(1)
        await asyncio.sleep(5)
        expected = () if error is None else (type(error),)
        with contextlib.suppress(*expected):
            if by == "lane":
                with intake.lane() as lane:
                    assert await lane.recv() == 1
                    await asyncio.sleep(3)
                    if error is not None:
                        raise error
            else:
                with await (intake.recv() if by == "work" else intake.recv_many(9)):
                    await asyncio.sleep(3)
                    if error is not None:
                        raise error
        s = intake.statistics()
        assert getattr(s, counted) == 1
        assert s.held == 0
        assert observed == [(Ending(counted), 3.0) if counted != "ignored" else (Ending.IGNORE, 3.0)]

    run_virtual(main())


def test_a_lane_ends_the_one_before_when_it_asks_for_the_next() -> None:
    async def main() -> None:
        intake: Intake[int] = Intake(4)
        for i in range(4):
            intake.try_admit(i)
        intake.close()
        held = []
        with intake.lane() as lane:
            async for item in lane:
                held.append((item, intake.held))
                if item == 1:
                    lane.dropped()
                    with pytest.raises(PermitSpent):
                        lane.done()
        assert held == [(0, 4), (1, 3), (2, 2), (3, 1)]
        s = intake.statistics()
        assert (s.done, s.dropped, s.held) == (3, 1, 0)

    run_virtual(main())


@pytest.mark.parametrize("by", ["work", "batch", "lane"])
def test_what_is_forgotten_is_not_lost(by: str) -> None:
    async def main() -> None:
        intake: Intake[int] = Intake(2)
        intake.try_admit(1)
        intake.try_admit(2)

        async def forget() -> None:
            if by == "work":
                await intake.recv()
            elif by == "batch":
                await intake.recv_many(2)
            else:
                await intake.lane().recv()

        with pytest.warns(ResourceWarning):
            await forget()
        await turns(2)
        assert intake.held == (0 if by == "batch" else 1)
        assert intake.statistics().ignored == (2 if by == "batch" else 1)

    run_virtual(main())


def test_a_batch_has_one_permit_for_all() -> None:
    async def main() -> None:
        intake: Intake[int] = Intake(8)
        for i in range(8):
            intake.try_admit(i)
        batch = await intake.recv_many(5)
        assert isinstance(batch, Batch)
        assert (batch.item, batch.count) == ([0, 1, 2, 3, 4], 5)
        batch.done()
        with pytest.raises(PermitSpent):
            batch.done()
        assert intake.held == 3
        with await intake.recv_many(5) as items:
            assert items == [5, 6, 7]
        assert intake.held == 0
        with pytest.raises(ValueError, match="at least one"):
            await intake.recv_many(0)

    run_virtual(main())


@given(
    per_s=st.sampled_from([0.5, 3.0, 1000.0]),
    burst=st.sampled_from([1.0, 2.0, 7.5]),
    steps=st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.33, 2.0, 50.0]), st.integers(1, 9)), max_size=25),
)
@settings(max_examples=80, deadline=None)
def test_it_lets_through_exactly_what_a_token_bucket_does(
    per_s: float, burst: float, steps: list[tuple[float, int]]
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        rate = Rate(per_s, burst)
        intake: Intake[int] = Intake(10_000, rate=rate)
        bucket = TokenBucket(rate, loop.time())
        for pause_s, offers in steps:
            await asyncio.sleep(pause_s)
            for _ in range(offers):
                try:
                    intake.try_admit(1)
                    admitted = True
                except Full:
                    admitted = False
                assert admitted == bucket.take(1, loop.time())
            assert intake.statistics().tokens == pytest.approx(bucket.tokens(loop.time()), abs=1e-6)

    run_virtual(main())


def test_there_is_no_double_burst_after_a_quiet_time() -> None:
    async def main() -> None:
        intake: Intake[int] = Intake(1000, rate=Rate(1.0, burst=10.0))

        def burst() -> int:
            count = 0
            with contextlib.suppress(Full):
                while True:
                    intake.try_admit(1)
                    count += 1
            return count

        for _ in range(5):
            intake.try_admit(1)  # leaves five in hand
        await asyncio.sleep(3600)
        assert burst() == 10
        await turns(3)
        assert burst() == 0
        await asyncio.sleep(2.0)
        assert burst() == 2

    run_virtual(main())


def test_those_who_wait_for_tokens_come_in_one_interval_apart() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        intake: Intake[int] = Intake(1000, rate=Rate(2.0, burst=1.0))
        came: list[float] = []

        async def come(i: int) -> None:
            await intake.admit(i)
            came.append(loop.time())

        await asyncio.gather(*(come(i) for i in range(6)))
        assert came == pytest.approx([0.0, 0.5, 1.0, 1.5, 2.0, 2.5])
        intake.change_rate(Rate(100.0, burst=1.0))
        await come(7)
        assert came[-1] == pytest.approx(2.51)
        intake.change_rate(None)
        await asyncio.gather(*(come(i) for i in range(50)))
        assert came[-1] == pytest.approx(2.51)

    run_virtual(main())


def test_k25_who_cannot_be_in_time_is_told_at_once() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        intake: Intake[int] = Intake(4, retry_after=RetryAfter(random.Random(1)))

        async def work() -> None:
            with intake.lane() as lane:
                async for _ in lane:
                    await asyncio.sleep(1)

        async def feed() -> None:
            for i in range(60):
                await intake.admit(i)

        working = asyncio.gather(work(), work())
        feeding = asyncio.create_task(feed())
        others = [asyncio.create_task(outcome_of(intake.admit(100 + i))) for i in range(20)]
        await asyncio.sleep(20)
        began = loop.time()
        rate = intake.statistics().drain_rate_per_s
        assert rate == pytest.approx(2.0, rel=0.1)
        late = [asyncio.create_task(outcome_of(intake.admit(i))) for i in range(20)]
        await turns(4)
        with pytest.raises(Expired) as refused:
            await intake.admit(1, deadline_s=3.0)
        assert loop.time() == began
        assert type(refused.value.retry_after_s) is int
        await asyncio.gather(feeding, *others, *late)
        intake.close()
        await working
        assert intake.held == 0

    run_virtual(main())


def test_a_deadline_that_passes_leaves_nothing_and_gives_the_item_back() -> None:
    async def main() -> None:
        intake: Intake[str] = Intake(1)
        await intake.admit("a")
        with pytest.raises(Expired) as refused:
            await intake.admit("b", deadline_s=2.0)
        assert refused.value.item == "b"
        assert intake.statistics().waiting_senders == 0
        (await intake.recv()).done()
        intake.try_admit("c")
        (await intake.recv()).done()

    run_virtual(main())


def test_close_refuses_senders_and_lets_receivers_finish() -> None:
    async def main() -> None:
        intake: Intake[int] = Intake(1)
        intake.try_admit(1)
        sending = asyncio.create_task(outcome_of(intake.admit(2)))
        await turns(2)
        intake.close()
        refusal = await sending
        assert isinstance(refusal, Closed)
        assert refusal.item == 2
        with pytest.raises(Closed):
            intake.try_admit(3)
        with pytest.raises(Closed):
            await intake.admit(3)
        (await intake.recv()).done()
        with pytest.raises(Ended):
            await intake.recv()
        with pytest.raises(Ended):
            intake.try_recv()
        other: Intake[int] = Intake(1)
        with pytest.raises(Empty):
            other.try_recv()
        receiving = asyncio.create_task(outcome_of(other.recv()))
        await turns(2)
        other.close()
        assert isinstance(await receiving, Ended)

    run_virtual(main())


def test_the_age_is_that_of_the_oldest_that_waits() -> None:
    async def main() -> None:
        intake: Intake[int] = Intake(5)
        for i in range(3):
            await intake.admit(i)
            await asyncio.sleep(10)
        assert intake.statistics().oldest_age_s == pytest.approx(30.0)
        (await intake.recv()).done()
        assert intake.statistics().oldest_age_s == pytest.approx(20.0)
        (await intake.recv_many(5)).done()
        assert intake.statistics().oldest_age_s == 0.0

    run_virtual(main())


def test_a_token_that_had_been_granted_to_one_who_was_cancelled_goes_to_the_next() -> None:
    async def main() -> None:
        intake: Intake[int] = Intake(1, rate=Rate(0.001, burst=2.0))
        await intake.admit(1)
        cancelled, waiting = asyncio.create_task(intake.admit(2)), asyncio.create_task(intake.admit(3))
        await turns(2)
        (await intake.recv()).done()  # grants the permit and the last token to the first in line
        cancelled.cancel()
        await turns(3)
        assert waiting.done()
        assert intake.statistics().tokens == pytest.approx(0.0, abs=1e-3)
        with await intake.recv() as item:
            assert item == 3

    run_virtual(main())


@pytest.mark.parametrize("options", [{}, {"capacity": 1}, {"rate": Rate(3.0, burst=1.0)}])
def test_a_task_cancelled_at_any_await_loses_no_item_and_no_permit(options: dict[str, Any]) -> None:
    async def main(at: int, who: str) -> bool:
        intake: Intake[int] = Intake(2, **options)
        sent: list[int] = []
        received: list[int] = []

        async def produce(first: int) -> None:
            for i in range(first, first + 4):
                await intake.admit(i)
                sent.append(i)

        async def consume() -> None:
            with intake.lane() as lane:
                async for item in lane:
                    received.append(item)
                    await asyncio.sleep(0.2)

        async with assert_nothing_leaked():
            tasks = [asyncio.create_task(produce(100)), asyncio.create_task(consume())]
            struck = await cancelled_at(at, produce(0) if who == "producer" else consume_until_closed(consume))
            await tasks[0]
            intake.close()
            await tasks[1]
        assert sorted(received) == sorted(sent)
        assert intake.held == 0
        return struck

    async def consume_until_closed(consume: Any) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2.0):
                await consume()

    for who in ("producer", "consumer"):
        at = 0
        while run_virtual(main(at, who)):
            at += 1
        assert at >= 2


async def _scenario(schedule: Schedule) -> None:
    r = schedule.random
    limit = r.choice([1, 2, 5])
    rate = r.choice([None, None, Rate(20.0, burst=2.0)])
    intake: Intake[int] = Intake(limit, capacity=r.choice([None, 1, limit]), rate=rate)
    sent: list[int] = []
    received: list[int] = []
    numbers = iter(range(10**6))

    def check() -> None:
        depth, held, taken = len(intake.buffer), intake.held, len(intake.buffer) + intake._reserved
        assert 0 <= depth <= held <= intake._limit, intake.statistics()
        assert taken <= intake._capacity, intake.statistics()
        assert 0 <= intake._claimed <= depth, intake.statistics()
        senders, receivers = intake._senders.waiting, intake._receivers.waiting
        if any(waiter.done() for line in (senders, receivers) for waiter, _ in line):
            return
        kept = intake._claimed + intake.receivers_stepping  # who steps back looks again in this turn
        assert not receivers or depth <= kept, f"a receiver sleeps beside an item: {intake.statistics()}"
        stepping = intake.senders_stepping
        if stepping and intake._rate.limited and intake.tokens(intake._now()) < 1 + stepping:
            return
        if senders and held + stepping < intake._limit and taken + stepping < intake._capacity:
            timer, now = intake._timer, intake._now()
            # Of what is due at one instant nobody comes first: the timer that wakes them may be the next to run.
            woken = timer is not None and (intake.tokens(now) < 1 - 1e-6 or timer.when() <= now + 1e-6)
            assert woken, f"a sender sleeps while there is room, or no timer is set: {intake.statistics()}"

    schedule.watch = check

    async def produce() -> None:
        for _ in range(r.randint(1, 6)):
            item = next(numbers)
            way = r.randrange(4)
            try:
                if way == 0:
                    intake.try_admit(item)
                else:
                    await intake.admit(item, deadline_s=0.1 if way == 1 else None)
            except (Full, Expired) as refusal:
                if refusal.item != item:
                    raise AssertionError("another item came back") from refusal
                await asyncio.sleep(0.1)
                continue
            sent.append(item)
            check()

    async def consume() -> None:
        with intake.lane() as lane:
            while True:
                way = r.randrange(4)
                if way == 0:
                    received.append(await lane.recv())
                    await asyncio.sleep(r.choice([0, 0.05]))
                    continue
                if lane.holds:  # who waits for another while he holds one may wait for himself
                    r.choice([lane.done, lane.ignore, lane.dropped])()
                if way == 1:
                    with await intake.recv_many(r.randint(1, 3)) as items:
                        received.extend(items)
                        check()
                        await asyncio.sleep(0.05)
                    continue
                work: Work[int] = await intake.recv()
                with work as item:
                    received.append(item)
                    check()
                    await asyncio.sleep(r.choice([0, 0.05]))

    async with assert_nothing_leaked():
        producers = [schedule.victim(produce()) for _ in range(r.randint(1, 4))]
        consumers = [schedule.victim(consume()) for _ in range(r.randint(1, 3))]
        survivor = asyncio.create_task(consume())
        results = await asyncio.gather(*producers, return_exceptions=True)
        intake.close()
        results += await asyncio.gather(*consumers, survivor, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError | Ended):
                raise result
        assert isinstance(results[-1], Ended)
    assert sorted(received) == sorted(sent)
    s = intake.statistics()
    assert (s.held, s.waiting_senders, s.waiting_receivers) == (0, 0, 0)
    assert s.admitted == s.done + s.ignored + s.dropped
    assert s.tokens >= -1e-6


@pytest.mark.schedules
def test_no_item_or_permit_is_lost_or_doubled_under_any_schedule() -> None:
    run_schedules(_scenario, 1500)


class Door(RuleBasedStateMachine):
    """`try_admit`, `try_recv` and the endings beside a list, a count and a token bucket."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.intake: Intake[int] = self.inside(lambda: Intake(5, capacity=3, rate=Rate(2.0, 6.0)))
        self.bucket = TokenBucket(Rate(2.0, 6.0), 0.0)
        self.inbox: list[int] = []
        self.works: list[Work[int]] = []
        self.limit, self.number = 5, 0

    def inside(self, act: Any) -> Any:
        async def run() -> Any:
            return act()

        return self.loop.run_until_complete(run())

    def teardown(self) -> None:
        for work in self.works:
            work.ignore()
        self.loop.close()

    @rule(count=st.integers(1, 4))
    def admit(self, count: int) -> None:
        def offer() -> None:
            for _ in range(count):
                self.number += 1
                room = len(self.inbox) < 3 and len(self.inbox) + len(self.works) < self.limit
                expected = room and self.bucket.take(1, self.loop.time())
                try:
                    self.intake.try_admit(self.number)
                except Full:
                    assert not expected
                else:
                    assert expected
                    self.inbox.append(self.number)

        self.inside(offer)

    @rule()
    def receive(self) -> None:
        def take() -> None:
            try:
                work = self.intake.try_recv()
            except Empty:
                assert not self.inbox
            else:
                assert work.item == self.inbox.pop(0)
                self.works.append(work)

        self.inside(take)

    @precondition(lambda self: self.works)
    @rule(how=st.sampled_from(["done", "ignore", "dropped"]))
    def end(self, how: str) -> None:
        self.inside(getattr(self.works.pop(), how))

    @rule(seconds=st.sampled_from([0.0, 0.2, 0.5, 9.0]))
    def later(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))

    @rule(limit=st.integers(3, 7))
    def resize(self, limit: int) -> None:
        self.limit = limit
        self.inside(lambda: self.intake.resize(limit, capacity=3))

    @invariant()
    def same(self) -> None:
        s = self.inside(self.intake.statistics)
        assert (s.depth, s.held) == (len(self.inbox), len(self.inbox) + len(self.works))
        assert s.tokens == pytest.approx(self.bucket.tokens(self.loop.time()), abs=1e-6)
        assert s.admitted == s.done + s.ignored + s.dropped + s.held


TestDoor = Door.TestCase
TestDoor.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
