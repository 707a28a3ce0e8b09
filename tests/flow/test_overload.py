"""K22 and K23: too much at once is answered with one of the refusals, each worth an HTTP status, and never an error."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from headrace.flow import Full, Refusal, channel
from headrace.flow.admission import Admission, Admitted
from headrace.flow.ladder import Ladder
from headrace.flow.ladder_order import ClassBounds
from headrace.flow.shedding import ServiceClass
from headrace.flow.testing import Schedule, assert_nothing_leaked, run_schedules, run_virtual


async def _posts(schedule: Schedule) -> None:
    limit, answers, worked = 5, Counter[int](), 0
    admission = Admission(limit)
    sender, receiver = channel(limit)  # sized by the limit and by nothing else

    async def post(items: range) -> None:
        decision = admission.decide(count=len(items))
        if isinstance(decision, Refusal):
            answers[decision.http_status] += 1
            assert type(decision.retry_after_s) is int
            assert decision.retry_after_s >= 1
            return
        with decision.permit:
            done = [asyncio.get_running_loop().create_future() for _ in items]
            for item in zip(items, done, strict=True):
                sender.try_send(item)  # what was let in has its room: a refusal here would be an error (500)
            await asyncio.gather(*done)
        answers[200] += 1

    async def work() -> None:
        nonlocal worked
        async for _, done in receiver:
            await asyncio.sleep(0.1)
            worked += 1
            done.set_result(None)

    async def arrive(number: int) -> None:
        await asyncio.sleep(schedule.random.choice([0.0, 0.05, 0.1, 0.5]))
        await post(range(5 * number, 5 * number + 5))

    async with assert_nothing_leaked(sender, admission.permits):
        workers = [asyncio.create_task(work()) for _ in range(2)]
        await asyncio.gather(*(arrive(number) for number in range(25)))
        sender.close()
        await asyncio.gather(*workers)
    assert set(answers) == {200, 429}
    assert sum(answers.values()) == 25
    assert worked == 5 * answers[200]


@pytest.mark.schedules
def test_k22_twenty_five_posts_of_five_items_on_a_limit_of_five_are_200_or_429_and_nothing_else() -> None:
    run_schedules(_posts, 300)


def test_k23_a_client_at_his_limit_is_told_429_with_the_capacity_and_when_to_come_back() -> None:
    async def main() -> None:
        bounds = dict.fromkeys(ServiceClass, ClassBounds(8, 60.0, 0.5))
        ladder: Ladder[int] = Ladder(bounds)
        refusal: Refusal | None = None
        for item in range(8):
            try:
                ladder.try_send(item, ServiceClass.BATCH, client="tenant")
            except Full as full:
                refusal = full
                break
        assert refusal is not None
        its = ladder.statistics().classes[ServiceClass.BATCH]
        assert refusal.http_status == 429
        assert type(refusal.retry_after_s) is int
        assert refusal.retry_after_s >= 1
        assert refusal.item == its.depth  # the first that was too many, as it was offered
        assert f"this client has {its.depth} waiting in the line of batch" in str(refusal)
        assert its.depth < its.capacity == 8
        assert its.refused == {"Full": 1}
        ladder.try_send(100, ServiceClass.BATCH, client="another")  # it is his limit and nobody else's

    run_virtual(main())


def test_k23_a_client_at_his_limit_at_the_door_is_told_429_too() -> None:
    async def main() -> None:
        admission = Admission(1, bounds=dict.fromkeys(ServiceClass, ClassBounds(4, 60.0, 0.5)))

        async def ask(client: str) -> Admitted | Refusal:
            decision = await admission.admit(client=client)
            if isinstance(decision, Admitted):
                decision.permit.done()
            return decision

        first = admission.decide(client="tenant")
        assert isinstance(first, Admitted)
        asking = [asyncio.create_task(ask("tenant")) for _ in range(4)]
        another = asyncio.create_task(ask("another"))
        await asyncio.sleep(0.01)
        told = [task.result() for task in asking if task.done()]
        assert told
        for refusal in told:
            assert isinstance(refusal, Full)
            assert refusal.http_status == 429
            assert type(refusal.retry_after_s) is int
            assert "this client has" in str(refusal)
        first.permit.done()
        answers = await asyncio.gather(*asking, another)
        assert isinstance(answers[-1], Admitted)
        assert sum(isinstance(answer, Admitted) for answer in answers) == 5 - len(told)

    run_virtual(main())
