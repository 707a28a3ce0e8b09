"""What an admission promises: one decision, nothing held by who is refused, an honest time to come back."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from headrace.flow import Closed, Expired, Full, Gate, Gauge, Permit, Rate, Refusal, Shed
from headrace.flow.admission import Admission, Admitted, Decision
from headrace.flow.drain_rate import RetryAfter
from headrace.flow.ladder_order import ClassBounds
from headrace.flow.shedding import ServiceClass
from headrace.flow.testing import assert_nothing_leaked, cancelled_at, run_virtual, turns

INTERACTIVE, BATCH, BACKGROUND = ServiceClass
WIDE = {class_: ClassBounds(1000, 1e6) for class_ in ServiceClass}


def permit_of(decision: Decision) -> Permit:
    assert isinstance(decision, Admitted), decision
    return decision.permit


def at_rest(admission: Admission) -> None:
    s = admission.statistics()
    assert s.permits.held == s.permits.held_bytes == s.waiting == sum(s.waiting_by_class.values()) == 0
    accounted(admission)


def accounted(admission: Admission) -> None:
    s = admission.statistics()
    assert s.offered == s.admitted + sum(s.refused.values()) + s.cancelled + s.waiting


async def busy(admission: Admission, service_s: float, offers: int, **offer: Any) -> None:
    """Keeps an admission as busy as it goes, from within, until that many have been through."""

    async def one() -> None:
        with permit_of(await admission.admit(**offer)):
            await asyncio.sleep(service_s)

    await asyncio.gather(*(one() for _ in range(offers)))


def test_the_answer_is_a_value_and_the_permit_is_the_callers() -> None:
    async def main() -> None:
        admission = Admission(2, limit_bytes=100)
        with permit_of(admission.decide(size_bytes=60)):
            refusal = admission.decide(size_bytes=60)
            assert isinstance(refusal, Full)
            assert type(refusal.retry_after_s) is int
            with permit_of(admission.decide(size_bytes=40)):
                assert isinstance(admission.decide(), Full)
                assert admission.permits.held == 2
        at_rest(admission)

    run_virtual(main())


def test_who_is_refused_by_one_part_has_taken_nothing_of_the_others() -> None:
    async def main() -> None:
        gauge = Gauge("depth")
        admission = Admission(1, rate=Rate(1.0, burst=2.0), gates=[Gate(gauge, high_water=8, low_water=2)])
        gauge.set(8)
        assert "depth reached 8" in str(admission.decide())
        gauge.set(2)
        assert admission.statistics().tokens == 2.0
        permit = permit_of(admission.decide())
        assert isinstance(admission.decide(), Full)  # no permit, so the token stays
        assert admission.statistics().tokens == 1.0
        permit.done()
        permit_of(admission.decide()).done()
        refusal = admission.decide()  # no token, so the permit stays
        assert "rate" in str(refusal)
        assert admission.permits.held == 0
        at_rest(admission)

    run_virtual(main())


def test_k26_fifty_at_once_on_a_bound_of_five_are_exactly_five() -> None:
    """K26: the bound is off under bursts (triton #5783, rabbitmq #8966, taskiq #528)."""

    async def main() -> None:
        admission = Admission(5, bounds={class_: ClassBounds(10, 1e6) for class_ in ServiceClass})

        async def offer() -> Decision:
            await asyncio.sleep(0)
            return admission.decide()

        decisions = await asyncio.gather(*(offer() for _ in range(50)))
        admitted = [decision for decision in decisions if isinstance(decision, Admitted)]
        assert len(admitted) == 5
        assert sum(isinstance(decision, Full) for decision in decisions) == 45
        waiting = [asyncio.create_task(admission.admit()) for _ in range(50)]
        await turns(3)
        assert admission.statistics().waiting == 10
        for decision in admitted:
            decision.permit.done()
        for task in waiting:
            if isinstance(answer := await task, Admitted):
                answer.permit.done()
        assert sum(isinstance(task.result(), Full) for task in waiting) == 40
        at_rest(admission)

    run_virtual(main())


def test_k32_an_idle_connection_holds_nothing() -> None:
    """K32: shedding with free permits; idle connections hold permits (apollographql/router #9034, vector #26457)."""

    async def main() -> None:
        admission = Admission(10)
        work = asyncio.Event()

        async def connection(i: int) -> None:
            await work.wait()  # keep-alive: connected, and nothing to do
            if i < 10:
                with permit_of(admission.decide()):
                    await asyncio.sleep(1)

        async with asyncio.TaskGroup() as connections:
            for i in range(100):
                connections.create_task(connection(i))
            await turns(3)
            assert admission.permits.held == 0
            assert not admission.statistics().level  # nothing is shed
            work.set()
        assert admission.statistics().admitted == 10
        at_rest(admission)

    run_virtual(main())


def test_the_time_to_come_back_is_the_measured_time_until_half_is_free() -> None:
    async def main() -> None:
        admission = Admission(4, bounds=WIDE, retry_after=RetryAfter(random.Random(1), jitter=0.0))
        await busy(admission, 2.0, 40)
        assert admission.statistics().drain_rate_per_s == pytest.approx(1.85)  # 37 of 40, until nobody waits
        held = [permit_of(admission.decide()) for _ in range(4)]
        answer = admission.decide()
        assert isinstance(answer, Full)
        assert answer.retry_after_s == 2  # from four to two, at 1.85 per second, rounded up
        waiting = [asyncio.create_task(admission.admit(BATCH)) for _ in range(18)]
        await turns(2)
        answer = admission.decide(BATCH)
        assert isinstance(answer, Full)
        assert answer.retry_after_s == 11  # 4 in flight and 18 before, less 2, at 1.85 per second
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
        for permit in held:
            permit.done()
        at_rest(admission)

    run_virtual(main())


def test_the_time_to_come_back_is_when_the_gate_opens_or_the_pause_ends() -> None:
    async def main() -> None:
        gauge = Gauge("depth")
        exact = RetryAfter(random.Random(1), jitter=0.0)
        admission = Admission(4, gates=[Gate(gauge, high_water=48, low_water=16)], retry_after=exact)
        gauge.set(48)
        for level in range(47, 39, -1):
            await asyncio.sleep(0.5)
            gauge.set(level)
        answer = admission.decide()
        assert isinstance(answer, Full)
        assert answer.retry_after_s == 12  # from 40 to 16 at two per second
        admission.pause(30.0)
        answer = admission.decide()
        assert isinstance(answer, Full)
        assert answer.retry_after_s == 30
        waiting = asyncio.create_task(admission.admit())
        gauge.set(16)
        await asyncio.sleep(29.9)
        assert not waiting.done()
        await asyncio.sleep(0.2)
        permit_of(waiting.result()).done()

    run_virtual(main())


def test_k25_who_cannot_be_in_time_is_told_at_once_and_who_can_waits() -> None:
    """K25: expired items are answered only when the worker frees (triton #7512)."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        admission = Admission(2, bounds=WIDE)
        await busy(admission, 1.0, 40)
        began = loop.time()
        held = [permit_of(admission.decide()) for _ in range(2)]
        others = [asyncio.create_task(admission.admit()) for _ in range(20)]  # ten seconds' worth
        await turns(2)
        answer = await admission.admit(deadline_s=5.0)
        assert isinstance(answer, Expired)
        assert type(answer.retry_after_s) is int
        assert loop.time() == began
        late = asyncio.create_task(admission.admit(BATCH, deadline_s=11.0))
        await asyncio.sleep(10.9)
        assert not late.done()
        await asyncio.sleep(0.2)  # nobody was done after all: the answer comes when the deadline does
        assert isinstance(late.result(), Expired)
        for task in others:
            task.cancel()
        await asyncio.wait(others)
        for permit in held:
            permit.done()
        at_rest(admission)

    run_virtual(main())


def test_a_rate_makes_hopeless_deadlines_known_too() -> None:
    async def main() -> None:
        admission = Admission(100, rate=Rate(1.0, burst=1.0))
        permit_of(admission.decide()).done()
        assert isinstance(await admission.admit(count=5, deadline_s=3.0), Expired)
        permit_of(await admission.admit(count=1, deadline_s=1.5)).done()
        assert asyncio.get_running_loop().time() == pytest.approx(1.0)
        at_rest(admission)

    run_virtual(main())


def test_the_head_is_admitted_when_nothing_is_held_whatever_it_needs() -> None:
    async def main() -> None:
        admission = Admission(3, limit_bytes=10)
        with permit_of(admission.decide(count=9, size_bytes=999)):
            assert isinstance(admission.decide(), Full)
        at_rest(admission)

    run_virtual(main())


def test_those_who_wait_are_let_in_by_class_and_in_fair_turns() -> None:
    async def main() -> None:
        admission = Admission(1)
        order: list[str] = []

        async def come(name: str, class_: ServiceClass, client: str) -> None:
            with permit_of(await admission.admit(class_, client=client)):
                order.append(name)
                await asyncio.sleep(1)

        first = asyncio.create_task(come("first", BACKGROUND, "z"))
        await turns(2)
        tasks = [asyncio.create_task(come(f"a{i}", BATCH, "a")) for i in range(4)]
        tasks += [asyncio.create_task(come("b0", BATCH, "b"))]
        tasks += [asyncio.create_task(come("now", INTERACTIVE, "b"))]
        await asyncio.gather(first, *tasks)
        assert order == ["first", "now", "a0", "b0", "a1", "a2", "a3"]
        at_rest(admission)

    run_virtual(main())


def test_decide_does_not_overtake_those_who_wait_for_more_than_is_free() -> None:
    async def main() -> None:
        admission = Admission(4)
        held = permit_of(admission.decide(count=2))
        heavy = asyncio.create_task(admission.admit(BATCH, count=3))
        await turns(2)
        assert isinstance(admission.decide(BATCH), Full)
        assert isinstance(admission.decide(BACKGROUND), Full | Shed)
        with permit_of(admission.decide(INTERACTIVE)):  # a higher class may
            pass
        held.done()
        permit_of(await heavy).done()
        at_rest(admission)

    run_virtual(main())


def test_a_token_that_had_been_granted_to_one_who_was_cancelled_goes_to_the_next() -> None:
    async def main() -> None:
        admission = Admission(1, rate=Rate(0.001, burst=2.0), bounds=WIDE)
        held = permit_of(admission.decide())
        cancelled, waiting = asyncio.create_task(admission.admit()), asyncio.create_task(admission.admit())
        await turns(2)
        held.done()  # grants the permit and the last token to the first in line
        cancelled.cancel()
        await turns(3)
        permit_of(waiting.result()).done()
        assert admission.statistics().tokens == pytest.approx(0.0, abs=1e-3)
        at_rest(admission)

    run_virtual(main())


def test_admit_does_not_overtake_those_who_wait_for_more_than_is_free() -> None:
    async def main() -> None:
        admission = Admission(4)
        held = permit_of(admission.decide(count=2))
        heavy = asyncio.create_task(admission.admit(BATCH, count=3))
        await turns(2)
        light = asyncio.create_task(admission.admit(BATCH))
        await turns(2)
        assert not light.done()
        held.done()
        await turns(2)
        for task in (heavy, light):
            permit_of(task.result()).done()
        at_rest(admission)

    run_virtual(main())


def test_who_is_promoted_while_nothing_else_happens_is_let_in_then() -> None:
    async def main() -> None:
        admission = Admission(4, bounds={**WIDE, BATCH: ClassBounds(9, 100.0)})
        held = permit_of(admission.decide(count=2))
        heavy = asyncio.create_task(admission.admit(count=4))
        await turns(2)
        light = asyncio.create_task(admission.admit(BATCH))
        await asyncio.sleep(49.9)
        assert not light.done()
        await asyncio.sleep(0.2)  # half of its longest wait is over, and no rate is known
        permit_of(light.result()).done()
        held.done()
        permit_of(await heavy).done()
        at_rest(admission)

    run_virtual(main())


def test_classes_are_refused_from_the_bottom_as_the_load_rises() -> None:
    async def main() -> None:
        load = 0.0
        admission = Admission(100, load=lambda: load)
        seen = []
        for load in (0.4, 0.6, 0.8, 1.0, 0.6, 0.3, 0.1):  # noqa: B007  # the admission reads it
            row = ""
            for class_ in ServiceClass:
                answer = admission.decide(class_)
                row += type(answer).__name__[0]
                if isinstance(answer, Admitted):
                    answer.permit.done()
                assert isinstance(answer, Admitted) or type(answer.retry_after_s) is int
                assert type(await admission.admit(class_)) is type(answer) or isinstance(answer, Admitted)
            seen.append(row)
            admission.permits.statistics()
        assert seen == ["AAA", "AAS", "ASS", "FFF", "ASS", "AAS", "AAA"]

    with pytest.warns(ResourceWarning):  # the permits of `admit` are forgotten here, and come home
        run_virtual(main())


def test_more_permits_and_tokens_let_in_those_who_wait_at_once() -> None:
    async def main() -> None:
        admission = Admission(1, rate=Rate(1.0, burst=2.0))
        first = permit_of(admission.decide())
        second = asyncio.create_task(admission.admit())
        third = asyncio.create_task(admission.admit())
        await turns(2)
        admission.resize(3)
        await turns(2)
        assert (second.done(), third.done()) == (True, False)  # the burst is used up
        admission.change_rate(Rate(100.0, burst=2.0))
        await asyncio.sleep(0.011)
        for permit in (first, permit_of(second.result()), permit_of(third.result())):
            permit.done()
        at_rest(admission)
        with pytest.raises(ValueError, match="no rate"):
            Admission(1).change_rate(Rate(1.0))

    run_virtual(main())


def test_close_answers_those_who_wait_and_those_who_come_and_keeps_what_is_held() -> None:
    async def main() -> None:
        admission = Admission(1)
        held = permit_of(admission.decide())
        waiting = [asyncio.create_task(admission.admit(class_)) for class_ in ServiceClass]
        await turns(2)
        admission.close()
        answers = [*[await task for task in waiting], admission.decide(), await admission.admit()]
        assert all(isinstance(answer, Closed) and answer.retry_after_s is None for answer in answers)
        held.done()
        await admission.permits.wait_idle()
        at_rest(admission)

    run_virtual(main())


def test_a_forgotten_permit_lets_the_next_one_in() -> None:
    async def main() -> None:
        admission = Admission(1)
        decision: Decision | None = admission.decide()
        waiting = asyncio.create_task(admission.admit())
        await turns(2)
        assert isinstance(decision, Admitted)
        with pytest.warns(ResourceWarning):
            decision = None
        permit_of(await waiting).done()
        at_rest(admission)

    run_virtual(main())


@pytest.mark.parametrize("at_most", [1, 2])
def test_an_admit_cancelled_at_any_await_leaves_nothing(at_most: int) -> None:
    async def main(at: int) -> bool:
        admission = Admission(at_most, limit_bytes=10, rate=Rate(2.0, burst=1.0))

        async def work(class_: ServiceClass) -> None:
            for size in (3, 8, 20):
                with permit_of(await admission.admit(class_, size_bytes=size)):
                    await asyncio.sleep(0.3)

        async with assert_nothing_leaked(admission.permits):
            others = [asyncio.create_task(work(class_)) for class_ in ServiceClass]
            struck = await cancelled_at(at, work(BATCH))
            await asyncio.gather(*others)
        at_rest(admission)
        return struck

    at = 0
    while run_virtual(main(at)):
        at += 1
    assert at >= 4


def test_it_explains_what_holds_up_the_next() -> None:
    async def main() -> None:
        admission = Admission(1)
        assert "nobody waits" in admission.explain()
        held = permit_of(admission.decide())
        waiting = asyncio.create_task(admission.admit(BATCH))
        await asyncio.sleep(3)
        said = admission.explain()
        assert "the next one waits because 1 of 1 permits are taken" in said
        assert "batch: 1 of 256 waiting, oldest 3.0 s of at most 300 s" in said
        held.done()
        permit_of(await waiting).done()

    run_virtual(main())


@pytest.mark.parametrize("offer", [{"count": 0}, {"size_bytes": -1}])
def test_nonsense_is_refused(offer: dict[str, int]) -> None:
    async def main() -> None:
        admission = Admission(1)
        with pytest.raises(ValueError, match="at least one"):
            admission.decide(**offer)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="negative"):
            Admission(1, low_water=-1)
        assert isinstance(admission.decide(), Admitted | Refusal)
        accounted(admission)

    with pytest.warns(ResourceWarning):
        run_virtual(main())
