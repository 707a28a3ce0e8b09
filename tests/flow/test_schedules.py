"""Thousands of seeded schedules: ready callbacks in random order, cancellations at random awaits.

A failure names its seed; HEADRACE_TEST_SEED=<seed> runs that one alone. `script/soak` runs a million.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from headrace.flow import (
    Closed,
    Ended,
    Expired,
    Full,
    Gate,
    GateState,
    Gauge,
    Permit,
    Permits,
    Rate,
    RateLimit,
    Receiver,
    Sender,
    channel,
)
from headrace.flow.testing import (
    Deadlock,
    Livelock,
    Schedule,
    assert_nothing_leaked,
    outcome_of,
    run_schedules,
    run_virtual,
    schedules,
    turns,
)

# What a strike or a deadline may do to a task of these scenarios; anything else is a fault.
EXPECTED = (asyncio.CancelledError, Expired, Closed, Ended, TimeoutError)


def raise_unexpected(results: list[Any]) -> None:
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, EXPECTED):
            raise result


def assert_sound(sender: Sender[Any]) -> None:
    """The bounds hold, and nobody sleeps while what he waits for is free."""
    slots = sender._slots  # what `statistics` is made of: a snapshot takes longer than a step
    depth, capacity = len(slots.buffer), slots.capacity
    taken, weight = depth + slots.reserved, 0  # with what is kept for those who are about to run
    used, scale = taken - slots.owed, slots.scale
    if scale is not None:
        weight = scale.settle(slots.taken) + scale.reserved
        assert used <= 1 or weight - scale.owed <= scale.limit, sender.statistics()
        assert len(scale.totals) <= 3 * capacity, "weights of items that have left pile up"
    assert 0 <= slots.claimed <= depth, sender.statistics()
    assert not capacity or used <= capacity, sender.statistics()
    senders, receivers = slots.senders_line.waiting, slots.receivers_line.waiting
    if (senders and senders[0][0].done()) or (receivers and receivers[0][0].done()):
        return  # the head was cancelled and has not run yet: his turn brings the line forward
    if senders and capacity:
        assert taken, f"a sender waits for an empty channel: {sender.statistics()}"
        too_heavy = scale is not None and weight + senders[0][1] > scale.limit  # type: ignore[operator]
        assert taken >= capacity or too_heavy, sender.statistics()
    elif senders:
        assert len(slots.receivers_line) <= slots.reserved, f"two wait for each other: {sender.statistics()}"
    if receivers:
        assert depth <= slots.claimed + slots.wanted, f"a receiver waits beside an item: {sender.statistics()}"


async def _channel_scenario(schedule: Schedule) -> None:
    r = schedule.random
    capacity = r.choice([0, 1, 2, 5])
    weights = r.random() < 0.4 and capacity > 0
    sender, receiver = (
        channel(capacity, weight_capacity=4, weigh=lambda item: 1 + item % 3) if weights else channel(capacity)
    )
    sent: list[int] = []
    received: list[int] = []
    numbers = iter(range(10**6))

    async def produce(end: Sender[int]) -> None:
        with end:
            for _ in range(r.randint(1, 6)):
                item = next(numbers)
                way = r.randrange(6)
                if way == 5:
                    batch = [item, *(next(numbers) for _ in range(r.randrange(4)))]
                    sending = end.send_many(batch, deadline_s=r.choice([None, None, 0.1]))
                    try:
                        await sending
                    except Expired:
                        pass
                    finally:
                        sent.extend(batch[: sending.accepted])
                    continue
                if way == 0:
                    with await end.reserve(weight=3 if weights else 0) as slot:
                        await asyncio.sleep(r.choice([0, 0.1]))
                        slot.send(item)
                elif way == 1:
                    try:
                        end.try_send(item)
                    except Full:
                        await asyncio.sleep(0.1)
                        continue
                elif way == 2:
                    try:
                        await end.send(item, deadline_s=0.1)
                    except Expired:
                        continue
                else:
                    await end.send(item)
                sent.append(item)

    async def consume(end: Receiver[int]) -> None:
        while True:
            way = r.randrange(4)
            if way == 0:
                received.extend(await end.recv_many(r.randint(1, 4), linger_s=r.choice([0.0, 0.3])))
            elif way == 1:
                try:
                    async with asyncio.timeout(0.1):
                        item = await end.recv()
                except TimeoutError:
                    continue
                received.append(item)
            else:
                received.append(await end.recv())
            if r.random() < 0.3:
                await asyncio.sleep(0.05)

    schedule.watch = lambda: assert_sound(sender)
    async with assert_nothing_leaked(sender):
        ends = [sender.clone() for _ in range(r.randint(1, 4))]
        producers = [schedule.victim(produce(end)) for end in ends]
        consumers = [schedule.victim(consume(receiver)) for _ in range(r.randint(1, 3))]
        survivor = asyncio.create_task(consume(receiver))
        results = await asyncio.gather(*producers, return_exceptions=True)
        for end in [sender, *ends]:  # whoever was struck before his first step has closed nothing
            end.close()
        results += await asyncio.gather(*consumers, survivor, return_exceptions=True)
        raise_unexpected(results)
        assert isinstance(results[-1], Ended)
    slots = sender._slots
    assert (slots.claimed, slots.wanted, slots.reserved, slots.owed) == (0, 0, 0, 0)
    assert (slots.senders_stepping, slots.receivers_stepping) == (0, 0)
    assert slots.scale is None or (slots.scale.settle(slots.taken), slots.scale.reserved, slots.scale.owed) == (0, 0, 0)
    assert sorted(received) == sorted(sent)
    assert len(set(received)) == len(received)


@pytest.mark.schedules
def test_no_item_is_lost_or_doubled_and_nobody_sleeps_in_vain() -> None:
    run_schedules(_channel_scenario, 1500)


async def _crowd_scenario(schedule: Schedule) -> None:
    """Few items, many receivers, and everything checked after every single callback."""
    r = schedule.random
    weights = r.random() < 0.3
    sender, receiver = channel(6, weight_capacity=5, weigh=lambda item: 1) if weights else channel(r.choice([1, 2, 6]))
    schedule.watch = lambda: assert_sound(sender)
    sent: list[int] = []
    received: list[int] = []

    async def produce() -> None:
        numbers = itertools.count()
        for _ in range(r.randint(2, 5)):
            for _ in range(r.randint(1, 4)):
                item = next(numbers)
                try:
                    sender.try_send(item)
                except Full:
                    await sender.send(item)
                sent.append(item)
                if r.random() < 0.5:
                    await asyncio.sleep(0)
            await asyncio.sleep(r.choice([0, 0.1]))

    async def consume() -> None:
        while True:
            if r.random() < 0.7:
                received.extend(await receiver.recv_many(r.randint(1, 6)))
            else:
                received.append(await receiver.recv())

    async with assert_nothing_leaked(sender):
        consumers = [schedule.victim(consume()) for _ in range(r.randint(2, 6))] + [asyncio.create_task(consume())]
        await produce()
        sender.close()
        raise_unexpected(await asyncio.gather(*consumers, return_exceptions=True))
    assert sorted(received) == sent


@pytest.mark.schedules
def test_a_crowd_of_receivers_is_served_in_every_step_whoever_of_them_goes_away() -> None:
    run_schedules(_crowd_scenario, 1500)


def test_what_a_watch_finds_ends_the_run_and_names_the_seed() -> None:
    async def main(schedule: Schedule) -> None:
        schedule.watch = lambda: pytest.fail("found") if asyncio.get_running_loop().time() > 1 else None
        await asyncio.sleep(3600)

    schedule = Schedule(3)
    with pytest.raises(pytest.fail.Exception, match="found") as found:
        run_virtual(main(schedule), schedule=schedule)
    assert "seed 3" in found.value.__notes__[0]


def test_what_a_callback_raises_ends_the_run_and_names_the_seed() -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_later(1, pytest.fail, "found")  # any other loop would only log it
        await asyncio.sleep(3600)

    with pytest.raises(pytest.fail.Exception, match="found") as found:
        run_virtual(main(), schedule=Schedule(3))
    assert "seed 3" in found.value.__notes__[0]


def test_a_run_that_goes_round_in_a_circle_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(_: Schedule) -> None:
        while True:
            await turns(1)

    monkeypatch.setattr("headrace.flow.schedule._MOST_CALLBACKS", 1000)
    with pytest.raises(Livelock, match="1000"):
        run_schedules(main, 1)


def test_the_environment_says_which_seeds_are_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADRACE_TEST_SEED", raising=False)
    monkeypatch.delenv("HEADRACE_TEST_SHARE", raising=False)
    monkeypatch.setenv("HEADRACE_TEST_SCHEDULES", "10")
    assert [schedule.seed for schedule in schedules(3)] == list(range(10))
    shares = []
    for share in ("1/3", "2/3", "3/3"):
        monkeypatch.setenv("HEADRACE_TEST_SHARE", share)
        shares += [schedule.seed for schedule in schedules(3)]
    assert sorted(shares) == list(range(10))
    monkeypatch.setenv("HEADRACE_TEST_SEED", "77")
    assert [(schedule.seed, schedule.cancel_probability) for schedule in schedules(3)] == [(77, 0.1)]


def test_what_a_run_leaves_is_cancelled_and_its_generators_are_closed() -> None:
    closed: list[str] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            for number in itertools.count():
                yield number
        finally:
            await asyncio.sleep(1)
            closed.append("generator")

    async def sleep() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            closed.append("task")

    async def main(_: Schedule) -> None:
        asyncio.get_running_loop().create_task(sleep())
        kept.append(numbers())
        assert await anext(kept[0]) == 0
        await asyncio.sleep(1)

    kept: list[AsyncIterator[int]] = []
    run_schedules(main, 1)
    assert sorted(closed) == ["generator", "task"]


async def _one_to_one_scenario(schedule: Schedule) -> None:
    r = schedule.random
    sender, receiver = channel(r.choice([0, 1, 3]))
    sent: list[int] = []
    received: list[int] = []

    async def produce() -> None:
        for i in range(12):
            await sender.send(i)
            sent.append(i)

    async def consume() -> None:
        while True:
            received.extend(await receiver.recv_many(r.randint(1, 3), linger_s=r.choice([0.0, 0.2])))

    producer = schedule.victim(produce())
    while not producer.done():
        # A consumer that is struck is followed by the next: the order of items must not show it.
        consumer = schedule.victim(consume())
        await asyncio.wait([producer, consumer], return_when=asyncio.FIRST_COMPLETED)
        consumer.cancel()
        await outcome_of(consumer)
    sender.close()
    received.extend([item async for item in receiver])
    assert received == sent == list(range(len(sent)))


@pytest.mark.schedules
def test_one_sender_and_one_receiver_at_a_time_keep_the_order_under_any_cancellation() -> None:
    run_schedules(_one_to_one_scenario, 1500)


async def _permit_scenario(schedule: Schedule) -> None:
    r = schedule.random
    most = r.randint(1, 3)
    permits = Permits(most, limit_bytes=10)
    held: list[Permit] = []

    def check() -> None:
        now, now_bytes = permits._held, permits._held_bytes
        # More is held than the tasks hold only for grants whose task has not run yet.
        assert now >= sum(p.count for p in held)
        assert len(held) <= 1 or (now <= most and now_bytes <= 10), permits.statistics()
        waiting = permits._line.waiting
        if waiting and not waiting[0][0].done():
            head = waiting[0][1]
            assert now, "someone waits while nothing is held"
            assert now + head.items > permits._limit or now_bytes + head.size_bytes > 10, (permits.statistics(), head)

    async def work() -> None:
        for _ in range(r.randint(1, 6)):
            try:
                permit = await permits.acquire(
                    r.randint(1, 2), r.choice([0, 4, 25]), deadline_s=r.choice([None, None, 0.2])
                )
            except Expired:
                continue
            with permit:
                held.append(permit)
                try:
                    check()
                    await asyncio.sleep(r.choice([0, 0.1]))
                finally:
                    held.remove(permit)

    async def resize() -> None:
        nonlocal most
        for limit in r.sample([1, 2, 3], 2):
            await asyncio.sleep(r.choice([0, 0.1]))
            most = max(most, limit)  # what was granted before it became less may still be held
            permits.resize(limit, limit_bytes=10)

    schedule.watch = check
    async with assert_nothing_leaked(permits):
        tasks = [schedule.victim(work()) for _ in range(r.randint(2, 5))] + [asyncio.create_task(work())]
        tasks += [asyncio.create_task(resize())] if r.random() < 0.5 else []
        results = await asyncio.gather(*tasks, return_exceptions=True)
        raise_unexpected(results)
    s = permits.statistics()
    assert (s.held, s.held_bytes) == (0, 0)


@pytest.mark.schedules
def test_no_permit_is_lost_or_doubled_and_nobody_sleeps_while_one_is_free() -> None:
    run_schedules(_permit_scenario, 1500)


async def _k17_scenario(schedule: Schedule) -> None:
    permits = Permits(1)
    async with assert_nothing_leaked(permits):
        held = await permits.acquire()
        waiting = [asyncio.create_task(permits.acquire()) for _ in range(3)]
        await turns(4)
        steps: list[Callable[[], Any]] = [held.done, waiting[0].cancel, waiting[1].cancel]
        schedule.random.shuffle(steps)
        for step in steps:
            asyncio.get_running_loop().call_soon(step)
        results = await asyncio.gather(*[outcome_of(_use(task)) for task in waiting])
        assert results[2] is True  # the one that nobody cancelled runs


async def _use(task: asyncio.Task[Permit]) -> bool:
    with await task:
        return True


@pytest.mark.schedules
def test_k17_release_and_cancel_in_the_same_tick_in_all_orders() -> None:
    """K17: 1 permit, 3 waiters, release and cancel in the same tick: the next waiter runs, free + held = total."""
    run_schedules(_k17_scenario, 1500)


async def _rate_scenario(schedule: Schedule) -> None:
    r = schedule.random
    rate = Rate(per_s=r.choice([0.5, 3.0, 100.0]), burst=r.choice([1.0, 4.0]))
    limit = RateLimit(rate)
    loop = asyncio.get_running_loop()
    grants: list[tuple[float, int]] = []

    def check() -> None:
        waiting = limit._line.waiting
        if waiting and not waiting[0][0].done():
            assert limit._timer is not None, "nobody will wake the head"
            # At the instant at which they come he is about to be woken; later there would be more of them.
            more = limit._bucket.tokens(loop.time()) - min(waiting[0][1], rate.burst)
            assert more < 1e-4, f"the head sleeps while his tokens are there: {limit.statistics()}"

    schedule.watch = check

    async def take() -> None:
        for _ in range(r.randint(1, 5)):
            count = r.randint(1, 2)
            try:
                await limit.acquire(count, deadline_s=r.choice([None, None, 0.3]))
            except Expired:
                continue
            grants.append((loop.time(), count))
            await asyncio.sleep(r.choice([0, 0.5, 3]))

    async with assert_nothing_leaked(limit):
        tasks = [schedule.victim(take()) for _ in range(r.randint(1, 5))] + [asyncio.create_task(take())]
        results = await asyncio.gather(*tasks, return_exceptions=True)
        raise_unexpected(results)
    for i, (began, first) in enumerate(grants):
        total = 0
        for ended, count in grants[i:]:
            total += count
            assert total <= max(rate.burst, first) + rate.per_s * (ended - began) + 1 + 1e-6
    s = limit.statistics()
    assert s.wakeups <= s.granted + 2 * len(tasks) * 5  # no storm: an extra one only for who gave up


@pytest.mark.schedules
def test_a_rate_holds_in_every_window_and_strands_nobody() -> None:
    run_schedules(_rate_scenario, 1500)


async def _gate_scenario(schedule: Schedule) -> None:
    r = schedule.random
    gauge = Gauge("level")
    high = r.randint(1, 6)
    low = r.randint(0, high - 1)
    gate = Gate(gauge, high_water=high, low_water=low)
    closed = False

    def check() -> None:
        # The plain rule beside it, and nobody waits at an open gate.
        nonlocal closed
        closed = gauge.value >= high or (closed and gauge.value > low)
        assert (gate.state is GateState.CLOSED) == closed, gate.statistics()
        assert closed or not gate._line.waiting, gate.statistics()

    async def work() -> None:
        for _ in range(r.randint(1, 6)):
            try:
                if r.random() < 0.3:
                    gate.try_pass()
                else:
                    await gate.wait_open(deadline_s=r.choice([None, None, 0.2]))
            except (Full, Expired):
                await asyncio.sleep(0.1)
                continue
            gauge.add(1)
            check()
            try:
                await asyncio.sleep(r.choice([0, 0.05, 0.3]))
            finally:
                gauge.add(-1)
                check()

    async with assert_nothing_leaked(gate):
        tasks = [schedule.victim(work()) for _ in range(r.randint(2, 8))] + [asyncio.create_task(work())]
        raise_unexpected(await asyncio.gather(*tasks, return_exceptions=True))
    assert gauge.value == 0
    assert gate.statistics().state is GateState.OPEN


@pytest.mark.schedules
def test_a_gate_lets_everybody_pass_in_the_end_and_nobody_waits_while_it_is_open() -> None:
    run_schedules(_gate_scenario, 1500)


def test_a_seed_replays_the_same_run() -> None:
    async def trace(schedule: Schedule) -> list[str]:
        log: list[str] = []

        async def work(name: str) -> None:
            try:
                for i in range(5):
                    await asyncio.sleep(0)
                    log.append(f"{name}{i}")
            except asyncio.CancelledError:
                log.append(f"{name}-")
                raise

        await asyncio.gather(*(schedule.victim(work(n)) for n in "abcde"), return_exceptions=True)
        return log

    def run(seed: int) -> list[str]:
        schedule = Schedule(seed, cancel_probability=0.05)
        return run_virtual(trace(schedule), schedule=schedule)

    runs = [run(seed) for seed in range(20)]
    assert runs == [run(seed) for seed in range(20)]
    assert len({tuple(r) for r in runs}) > 15
    assert any("-" in entry for entry in itertools.chain(*runs))


def test_a_set_of_tasks_has_the_same_order_in_every_run_so_that_what_goes_over_one_replays_too() -> None:
    kept: list[set[asyncio.Task[None]]] = []  # so that the tasks of the next run are elsewhere in memory
    orders: list[list[int]] = []

    async def main() -> None:
        tasks = [asyncio.get_running_loop().create_task(asyncio.sleep(0)) for _ in range(20)]
        kept.append(set(tasks))
        orders.append([tasks.index(task) for task in kept[-1]])
        await asyncio.gather(*tasks)

    for seed in range(10):
        run_virtual(main(), schedule=Schedule(seed))
    assert all(order == orders[0] for order in orders)


def test_a_waiter_whom_nobody_will_wake_is_found() -> None:
    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Deadlock) as found:
        run_virtual(main(), schedule=Schedule(7))
    assert "seed 7" in found.value.__notes__[0]


def test_virtual_time_jumps_and_real_time_does_not_pass() -> None:
    async def main() -> float:
        await asyncio.gather(*(asyncio.sleep(s) for s in (3600, 7200, 1)))
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == pytest.approx(7200)


def test_what_is_left_behind_is_named() -> None:
    async def main() -> None:
        permits = Permits(1)
        with await permits.acquire(), pytest.raises(AssertionError, match="held in PermitStatistics"):
            async with assert_nothing_leaked(permits):
                pass
        with pytest.raises(AssertionError, match="task sleeper"):
            async with assert_nothing_leaked():
                task = asyncio.create_task(asyncio.sleep(1000), name="sleeper")
        task.cancel()

    run_virtual(main())
