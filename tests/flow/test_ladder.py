"""What the ladder promises to those who send, those who receive, and those who wait."""

from __future__ import annotations

import asyncio
import contextlib
import random
import weakref
from collections import Counter
from typing import Any

import pytest

from headrace.flow import Closed, Empty, Ended, Expired, Full, Refusal, Shed, WaterMarks
from headrace.flow.drain_rate import RetryAfter
from headrace.flow.ladder import Ladder
from headrace.flow.ladder_order import ClassBounds
from headrace.flow.shedding import DEFAULT_MARKS, ServiceClass, ShedLevel
from headrace.flow.testing import (
    Schedule,
    assert_nothing_leaked,
    cancelled_at,
    outcome_of,
    run_schedules,
    run_virtual,
    turns,
)

INTERACTIVE, BATCH, BACKGROUND = ServiceClass
NEVER = dict.fromkeys(ServiceClass, WaterMarks(1e9, 0))  # marks that no pressure reaches


def bounds(capacity: int, *longest_wait_s: float, client_share: float = 1.0) -> dict[ServiceClass, ClassBounds]:
    waits = longest_wait_s or (1e6, 1e6, 1e6)
    return {c: ClassBounds(capacity, wait_s, client_share) for c, wait_s in zip(ServiceClass, waits, strict=True)}


async def workers(ladder: Ladder[Any], count: int, service_s: float, served: list[tuple[float, Any]]) -> None:
    loop = asyncio.get_running_loop()

    async def work() -> None:
        async for item in ladder:
            served.append((loop.time(), item))
            await asyncio.sleep(service_s)

    await asyncio.gather(*(work() for _ in range(count)))


def assert_accounted(ladder: Ladder[Any]) -> None:
    for its in ladder.statistics().classes.values():
        assert its.accepted == its.served + its.expired + its.handed_back + its.depth
        assert 0 <= its.depth <= its.capacity
        assert its.clients <= its.depth


def test_what_comes_in_goes_out_by_class_and_once() -> None:
    async def main() -> None:
        ladder: Ladder[str] = Ladder()
        for item, class_ in (("night", BACKGROUND), ("month", BATCH), ("now", INTERACTIVE), ("too", INTERACTIVE)):
            ladder.try_send(item, class_)
        ladder.close()
        assert [item async for item in ladder] == ["now", "too", "month", "night"]
        with pytest.raises(Ended):
            ladder.try_recv()

    run_virtual(main())


def test_classes_are_refused_in_the_fixed_order_and_taken_again_in_the_reverse() -> None:
    async def main() -> None:
        load = 0.0
        ladder: Ladder[int] = Ladder(bounds(1000), load=lambda: load)
        story: list[tuple[float, list[str]]] = []
        up = [i / 20 for i in range(21)]
        for load in up + up[::-1]:  # the ladder reads it
            answers = []
            for class_ in ServiceClass:
                try:
                    ladder.try_send(1, class_)
                except Refusal as refusal:
                    answers.append(f"{type(refusal).__name__} {class_.name}")
            if not story or story[-1][1] != answers:
                story.append((load, answers))
        shed = ["Shed BATCH", "Shed BACKGROUND"]
        assert story == [
            (0.0, []),
            (0.5, ["Shed BACKGROUND"]),
            (0.75, shed),
            (0.95, ["Full INTERACTIVE", "Full BATCH", "Full BACKGROUND"]),
            (0.75, shed),
            (0.5, ["Shed BACKGROUND"]),
            (0.25, []),
        ]

    run_virtual(main())


def test_background_is_refused_when_interactive_fills_up_and_when_it_is_too_old_itself() -> None:
    async def main() -> None:
        ladder: Ladder[int] = Ladder(bounds(10, 30, 300, 1000))
        for i in range(5):
            ladder.try_send(i)
        with pytest.raises(Shed, match="the line of interactive is at 50%"):
            ladder.try_send(99, BACKGROUND)
        ladder.try_send(99, BATCH)
        for _ in range(6):
            ladder.try_recv()
        ladder.try_send(1, BACKGROUND)
        await asyncio.sleep(501)
        with pytest.raises(Shed, match="the longest wait of background is at 50%") as refused:
            ladder.try_send(2, BACKGROUND)
        assert refused.value.item == 2
        ladder.try_send(3, BATCH)
        assert ladder.statistics().level is ShedLevel.BACKGROUND
        assert "background: refused" in ladder.explain()

    run_virtual(main())


def test_k26_a_burst_of_fifty_on_a_bound_of_five_lets_in_exactly_five_and_tells_the_others() -> None:
    """K26: the bound is off under bursts (triton #5783, rabbitmq #8966, taskiq #528)."""

    async def main() -> None:
        ladder: Ladder[int] = Ladder(bounds(5), marks=NEVER, retry_after=RetryAfter(random.Random(1)))

        async def offer(i: int) -> None:
            await asyncio.sleep(0)
            ladder.try_send(i, BATCH)

        outcomes = await asyncio.gather(*(outcome_of(offer(i)) for i in range(50)))
        refused = [outcome for outcome in outcomes if isinstance(outcome, Full)]
        assert len(refused) == 45
        assert all(type(full.retry_after_s) is int and full.retry_after_s >= 1 for full in refused)
        kept = [ladder.try_recv() for _ in range(5)]
        assert sorted([full.item for full in refused] + kept) == list(range(50))
        with pytest.raises(Empty):
            ladder.try_recv()

    run_virtual(main())


def test_k25_an_item_whose_deadline_passes_while_all_workers_are_busy_is_answered_then_and_never_worked() -> None:
    """K25: expired items are answered only when the worker frees (triton #7512)."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        expired: list[tuple[float, str]] = []
        served: list[tuple[float, str]] = []
        ladder: Ladder[str] = Ladder(on_expired=lambda item: expired.append((loop.time(), item)))
        working = asyncio.create_task(workers(ladder, 1, 90.0, served))
        await turns(2)
        ladder.try_send("long")
        await turns(2)
        ladder.try_send("late", deadline_s=10.0)
        await asyncio.sleep(95)
        ladder.close()
        await working
        assert served == [(0.0, "long")]
        assert expired == [(10.0, "late")]
        assert_accounted(ladder)

    run_virtual(main())


def test_k25_an_item_that_cannot_be_in_time_by_the_measured_rate_is_refused_at_once() -> None:
    async def main() -> None:
        served: list[tuple[float, Any]] = []
        ladder: Ladder[Any] = Ladder(bounds(100, 60.0, 1e6, 1e6), marks=NEVER)
        working = asyncio.create_task(workers(ladder, 2, 1.0, served))
        for i in range(40):
            ladder.try_send(i, BATCH)
        await asyncio.sleep(9.5)  # 20 served, 20 wait, two per second
        assert ladder.statistics().drain_rate_per_s == pytest.approx(2.0, rel=0.15)
        with pytest.raises(Expired) as refused:
            ladder.try_send("x", BATCH, deadline_s=5.0)
        assert type(refused.value.retry_after_s) is int
        assert 3 <= refused.value.retry_after_s <= 8  # about half of the 10 s
        ladder.try_send("y", BATCH, deadline_s=12.0)
        ladder.try_send("z", INTERACTIVE, deadline_s=1.0)  # goes first, so it can be in time
        with pytest.raises(Expired):
            ladder.try_send("w", INTERACTIVE, deadline_s=0.0)
        ladder.close()
        await working
        when = {item: at for at, item in served}
        assert when["y"] <= 9.5 + 12.0
        assert when["z"] <= 9.5 + 1.0
        assert all(its.expired == 0 for its in ladder.statistics().classes.values())

    run_virtual(main())


def test_a_wait_that_could_not_be_kept_is_not_promised() -> None:
    async def main() -> None:
        ladder: Ladder[int] = Ladder(bounds(1000, 10.0, 100.0, 1000.0), marks=NEVER)
        working = asyncio.create_task(workers(ladder, 1, 1.0, []))
        for i in range(8):
            ladder.try_send(i)
        await asyncio.sleep(6.5)
        with contextlib.suppress(Full):
            for _ in range(100):
                ladder.try_send(1)
        assert 9 <= len(ladder) <= 11
        with pytest.raises(Full, match="longer than the 10 s of its class"):
            ladder.try_send(1)
        working.cancel()
        await asyncio.wait([working])

    run_virtual(main())


@pytest.mark.parametrize("seed", range(3))
def test_class_k_waits_at_most_t_k_while_higher_classes_would_take_everything(seed: int) -> None:
    """P10. Higher classes offer more than twice what the workers can do, for more than an hour of virtual time."""
    longest_s = {INTERACTIVE: 20.0, BATCH: 60.0, BACKGROUND: 240.0}

    async def main() -> None:
        loop, rng = asyncio.get_running_loop(), random.Random(seed)
        served: list[tuple[float, tuple[float, ServiceClass]]] = []
        capacities = {INTERACTIVE: 12, BATCH: 12, BACKGROUND: 8}
        ladder: Ladder[tuple[float, ServiceClass]] = Ladder(
            {c: ClassBounds(capacities[c], longest_s[c]) for c in ServiceClass}, marks=NEVER
        )
        working = asyncio.create_task(workers(ladder, 2, 1.0, served))

        async def offer(class_: ServiceClass, per_s: float) -> None:
            while loop.time() < 4000:
                await asyncio.sleep(rng.expovariate(per_s))
                try:
                    ladder.try_send((loop.time(), class_), class_)
                except Full:
                    continue

        await asyncio.gather(offer(INTERACTIVE, 4.0), offer(BATCH, 2.0), offer(BACKGROUND, 1.0))
        ladder.close()
        await working
        count, worst = Counter[ServiceClass](), dict.fromkeys(ServiceClass, 0.0)
        for at, (came_at, class_) in served:
            count[class_] += 1
            worst[class_] = max(worst[class_], at - came_at)
        assert all(worst[class_] <= longest_s[class_] for class_ in ServiceClass), worst
        assert count[BACKGROUND] > 100  # not starved
        assert count[INTERACTIVE] > count[BATCH] > count[BACKGROUND]
        assert_accounted(ladder)

    run_virtual(main())


def test_no_client_starves_another_at_the_door_or_inside() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        served: list[tuple[float, tuple[str, float]]] = []
        refused = Counter[str]()
        ladder: Ladder[tuple[str, float]] = Ladder(bounds(20), marks=NEVER)
        working = asyncio.create_task(workers(ladder, 1, 1.0, served))

        async def offer(client: str, every_s: float) -> None:
            while loop.time() < 2000:
                try:
                    ladder.try_send((client, loop.time()), BATCH, client=client)
                except Full:
                    refused[client] += 1
                await asyncio.sleep(every_s)

        await asyncio.gather(offer("hog", 0.05), offer("boar", 0.1), offer("guest", 4.0), offer("rare", 97.0))
        ladder.close()
        await working
        waits: dict[str, list[float]] = {}
        for at, (client, came_at) in served:
            waits.setdefault(client, []).append(at - came_at)
        assert not refused["guest"]
        assert not refused["rare"]
        assert max(waits["guest"]) <= 5.0  # one turn of each of the four, and the one in work
        assert max(waits["rare"]) <= 5.0
        assert abs(len(waits["hog"]) - len(waits["boar"])) <= 25  # the same share, however much they offer
        assert len(waits["guest"]) == 501

    run_virtual(main())


def test_close_lets_out_what_is_in_and_hand_back_takes_it_out() -> None:
    async def main() -> None:
        ladder: Ladder[int] = Ladder()
        ladder.try_send(1, BATCH)
        ladder.try_send(2, deadline_s=50.0)
        ladder.close()
        with pytest.raises(Closed) as refused:
            ladder.try_send(3)
        assert refused.value.item == 3
        assert await ladder.recv() == 2
        assert ladder.hand_back() == [1]
        with pytest.raises(Ended):
            await ladder.recv()
        await asyncio.sleep(100)
        assert_accounted(ladder)
        other: Ladder[int] = Ladder()
        waiting = asyncio.create_task(outcome_of(other.recv()))
        await turns(2)
        other.close()
        assert isinstance(await waiting, Ended)

    run_virtual(main())


def test_a_receiver_whose_item_was_handed_back_before_he_ran_is_told_the_end() -> None:
    async def main() -> None:
        ladder: Ladder[int] = Ladder()
        receiving = asyncio.create_task(outcome_of(ladder.recv()))
        await turns(3)
        ladder.try_send(1)
        assert ladder.hand_back() == [1]
        assert isinstance(await receiving, Ended)
        assert_accounted(ladder)

    run_virtual(main())


def test_an_item_that_was_received_is_not_kept_until_its_deadline() -> None:
    class Item:
        pass

    async def main() -> None:
        ladder: Ladder[Item] = Ladder()
        item = Item()
        known = weakref.ref(item)
        ladder.try_send(item, deadline_s=1e6)
        del item
        await ladder.recv()
        assert known() is None

    run_virtual(main())


def test_a_receiver_cancelled_at_any_await_takes_nothing() -> None:
    async def main(at: int) -> bool:
        ladder: Ladder[int] = Ladder()
        received: list[int] = []

        async def receive() -> None:
            while len(received) < 3:
                received.append(await ladder.recv())

        async with assert_nothing_leaked():
            loop = asyncio.get_running_loop()
            for i in range(3):
                loop.call_later(i, ladder.try_send, i)
            struck = await cancelled_at(at, receive())
            await asyncio.sleep(5)
            while len(received) < 3:
                received.append(ladder.try_recv())
        assert received == [0, 1, 2]
        assert ladder.statistics().waiting_receivers == 0
        return struck

    at = 0
    while run_virtual(main(at)):
        at += 1
    assert at >= 3


async def _ladder_scenario(schedule: Schedule) -> None:
    r = schedule.random
    expired: list[int] = []
    ladder: Ladder[int] = Ladder(
        bounds(r.choice([1, 3, 6]), 20.0, 40.0, 80.0), marks=r.choice([NEVER, DEFAULT_MARKS]), on_expired=expired.append
    )
    sent: list[int] = []
    received: list[int] = []
    came_back: list[tuple[int, int]] = []
    numbers = iter(range(10**6))

    def check() -> None:
        for class_, counts in ladder._counts.items():  # as `assert_accounted`, which takes longer than a step
            depth = ladder._order.depth(class_)
            assert counts["accepted"] == counts["served"] + counts["expired"] + counts["handed_back"] + depth
        if not any(waiter.done() for waiter, _ in ladder._receivers.waiting):
            assert not len(ladder._receivers) or len(ladder) <= ladder._claimed, "a receiver sleeps beside an item"
        assert ladder._claimed >= 0

    schedule.watch = check

    async def produce() -> None:
        for _ in range(r.randint(1, 6)):
            item = next(numbers)
            try:
                ladder.try_send(
                    item, r.choice(list(ServiceClass)), client=r.choice([None, "a", "b"]),
                    deadline_s=r.choice([None, None, 0.0, 0.1, 0.4]),
                )  # fmt: skip
            except Refusal as refusal:
                came_back.append((refusal.item, item))
            else:
                sent.append(item)
            check()
            await asyncio.sleep(r.choice([0, 0, 0.1]))

    async def consume() -> None:
        while True:
            received.append(await ladder.recv())
            check()
            await asyncio.sleep(r.choice([0, 0.1, 0.3]))

    async with assert_nothing_leaked():
        producers = [schedule.victim(produce()) for _ in range(r.randint(1, 4))]
        consumers = [schedule.victim(consume()) for _ in range(r.randint(1, 3))]
        survivor = asyncio.create_task(consume())
        results = await asyncio.gather(*producers, return_exceptions=True)
        ladder.close()
        results += await asyncio.gather(*consumers, survivor, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError | Ended):
                raise result
        assert isinstance(results[-1], Ended)
    assert sorted(received + expired) == sorted(sent)
    assert all(back == offered for back, offered in came_back)
    check()
    assert_accounted(ladder)


@pytest.mark.schedules
def test_no_item_is_lost_or_doubled_under_any_schedule() -> None:
    run_schedules(_ladder_scenario, 1500)


def test_k36_counters_do_not_drift_over_a_hundred_thousand_items_of_which_ten_percent_expire() -> None:
    """K36: counter drift slowly closes the gate under timeouts (triton #8870)."""

    async def main() -> None:
        expired: list[int] = []
        ladder: Ladder[int] = Ladder(bounds(50), marks=NEVER, on_expired=expired.append)
        received = 0
        for round_ in range(5000):
            for i in range(20):
                class_ = list(ServiceClass)[i % 3]
                ladder.try_send(i, class_, client=i % 7, cost=1.1, deadline_s=0.5 if i in (4, 13) else None)
            if round_ % 2:
                await asyncio.sleep(1.0)  # those with a deadline go
                received += sum(1 for _ in range(18) if ladder.try_recv() >= 0)
            else:
                received += sum(1 for _ in range(18) if ladder.try_recv() not in (4, 13) or True)
                await asyncio.sleep(1.0)
            while len(ladder):
                ladder.try_recv()
                received += 1
        assert received + len(expired) == 100_000
        assert len(expired) >= 5_000
        s = ladder.statistics()
        assert all(its.depth == its.clients == 0 for its in s.classes.values())
        assert ladder._order.cost_before(BACKGROUND) == 0.0
        assert ladder._claimed == s.promoted == 0
        assert_accounted(ladder)

    run_virtual(main())
