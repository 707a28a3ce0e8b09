"""Who is next: classes, promises, fair turns; beside a plain model."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headrace.flow.ladder_order import ClassBounds, LadderOrder, Waiting
from headrace.flow.shedding import ServiceClass

INTERACTIVE, BATCH, BACKGROUND = ServiceClass
BOUNDS = {INTERACTIVE: ClassBounds(4, 10.0), BATCH: ClassBounds(8, 50.0), BACKGROUND: ClassBounds(8, 100.0)}


def came(order: LadderOrder[Waiting], class_: ServiceClass, now: float, client: str | None = None) -> Waiting:
    entry = Waiting(class_, client, 1.0, now)
    assert order.no_room(class_, client) is None
    order.push(entry)
    return entry


def next_one(order: LadderOrder[Waiting], now: float, rate: float | None) -> Waiting:
    entry = order.peek(now, rate)
    assert entry is not None
    order.take(entry)
    return entry


def test_higher_classes_go_first_whoever_came_first() -> None:
    order = LadderOrder[Waiting](BOUNDS)
    entries = [came(order, class_, 0.0) for class_ in (BACKGROUND, BATCH, INTERACTIVE)]
    assert [next_one(order, 0.0, 10.0) for _ in range(3)] == entries[::-1]


def test_who_has_waited_until_his_promise_is_at_stake_goes_before_all() -> None:
    order = LadderOrder[Waiting](BOUNDS)
    old = came(order, BACKGROUND, 0.0)
    came(order, INTERACTIVE, 97.0)
    # Two wait, and a third could be in work: at one per second that is three seconds.
    assert order.peek(96.9, 1.0) is not old
    assert order.peek(97.0, 1.0) is old
    assert order.promoted == 1


def test_without_a_rate_half_of_the_longest_wait_is_the_time_to_promote() -> None:
    order = LadderOrder[Waiting](BOUNDS)
    old = came(order, BATCH, 0.0)
    came(order, INTERACTIVE, 24.0)
    assert order.peek(24.9, None) is not old
    assert order.peek(25.0, None) is old


def test_nobody_who_is_promoted_later_overtakes() -> None:
    order = LadderOrder[Waiting](BOUNDS)
    first = came(order, BACKGROUND, 0.0)
    second = came(order, BATCH, 50.5)
    assert order.peek(97.5, 1.0) is first
    late = came(order, INTERACTIVE, 97.5)
    assert [next_one(order, 200.0, 1.0) for _ in range(3)] == [first, second, late]


def test_a_line_takes_as_many_as_it_may_and_the_others_are_not_touched_by_it() -> None:
    order = LadderOrder[Waiting](BOUNDS)
    for _ in range(4):
        came(order, INTERACTIVE, 0.0)
    assert "holds 4" in str(order.no_room(INTERACTIVE, None))
    assert order.no_room(BATCH, None) is None


def test_there_is_always_room_for_one_more_client() -> None:
    order = LadderOrder[Waiting]({**BOUNDS, BATCH: ClassBounds(12, 50.0)})
    for client, expected in (("hog", 6), ("pig", 3), ("sow", 2), ("new", 1)):
        while order.no_room(BATCH, client) is None:
            came(order, BATCH, 0.0, client)
        assert sum(entry.client == client for entry in order.everyone()) == expected
    assert order.clients(BATCH) == 4


def test_who_is_promoted_still_counts_for_his_client() -> None:
    order = LadderOrder[Waiting](BOUNDS)
    for _ in range(4):
        came(order, BATCH, 0.0, "hog")
    order.peek(49.9, 1.0)
    assert order.promoted == 4
    assert order.no_room(BATCH, "hog") is not None


def test_a_newcomer_is_told_what_goes_before_him() -> None:
    order = LadderOrder[Waiting](BOUNDS)
    for class_, count in ((INTERACTIVE, 3), (BATCH, 5), (BACKGROUND, 7)):
        for _ in range(count):
            came(order, class_, 0.0)
    assert [order.cost_before(class_) for class_ in ServiceClass] == [3, 8, 15]
    order.peek(99.9, 1e6)  # everyone is due by then
    assert [order.cost_before(class_) for class_ in ServiceClass] == [8, 8, 15]


@pytest.mark.parametrize("wrong", [(0, 1.0, 1.0), (1, 0.0, 1.0), (1, float("inf"), 1.0), (1, 1.0, 0.0)])
def test_nonsense_is_refused(wrong: tuple[int, float, float]) -> None:
    with pytest.raises(ValueError, match="needs room"):
        ClassBounds(*wrong)
    with pytest.raises(ValueError, match="each class"):
        LadderOrder({INTERACTIVE: BOUNDS[INTERACTIVE]})


class Order(RuleBasedStateMachine):
    """Beside a plain list of who waits; the rules of the order are checked on every service."""

    def __init__(self) -> None:
        super().__init__()
        self.order: LadderOrder[Waiting] = LadderOrder(BOUNDS)
        self.model: list[Waiting] = []
        self.promoted: list[Waiting] = []
        self.now = 0.0
        self.numbers = itertools.count()

    @rule(class_=st.sampled_from(ServiceClass), client=st.sampled_from([None, "a", "b"]), cost=st.sampled_from([1, 3]))
    def offer(self, class_: ServiceClass, client: str | None, cost: int) -> None:
        of_class = [entry for entry in self.model if entry.class_ is class_]
        room = len(of_class) < BOUNDS[class_].capacity
        if client is not None:
            its = sum(entry.client == client for entry in of_class)
            room = room and its < max(1, BOUNDS[class_].capacity - len(of_class))
        assert (self.order.no_room(class_, client) is None) == room
        if room:
            entry = Waiting(class_, client, cost, self.now)
            self.order.push(entry)
            self.model.append(entry)

    @rule(seconds=st.sampled_from([0.0, 1.0, 7.0, 40.0]))
    def later(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: self.model)
    @rule(rate=st.sampled_from([None, 0.1, 1.0, 50.0]))
    def serve(self, rate: float | None) -> None:
        lead_s = (sum(entry.cost for entry in self.model) + 1) / rate if rate else None
        due = []
        for entry in self.model:
            longest_s = BOUNDS[entry.class_].longest_wait_s
            before_s = longest_s / 2 if lead_s is None else min(lead_s, longest_s)
            if entry not in self.promoted and entry.came_at + longest_s - before_s <= self.now:
                due.append((entry.came_at + longest_s - before_s, entry.class_, entry))
        self.promoted += [entry for *_, entry in sorted(due, key=lambda item: item[:2])]
        entry = self.order.peek(self.now, rate)
        assert entry is not None
        if self.promoted:
            assert entry is self.promoted.pop(0)
        else:
            assert entry.class_ == min(other.class_ for other in self.model)
            same = [o for o in self.model if o.class_ is entry.class_ and o.client == entry.client]
            assert entry is same[0]
        self.order.take(entry)
        self.model.remove(entry)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        entry = self.model.pop(data.draw(st.integers(0, len(self.model) - 1)))
        assert self.order.discard(entry)
        assert not self.order.discard(entry)
        if entry in self.promoted:
            self.promoted.remove(entry)

    @invariant()
    def same(self) -> None:
        assert len(self.order) == len(self.model)
        assert self.order.promoted == len(self.promoted)
        for class_ in ServiceClass:
            of_class = [entry for entry in self.model if entry.class_ is class_]
            assert self.order.depth(class_) == len(of_class)
            assert self.order.clients(class_) == len({entry.client for entry in of_class})
            oldest = of_class[0].came_at if of_class else self.now
            assert self.order.oldest_age_s(class_, self.now) == self.now - oldest
            before = [e for e in self.model if e.class_ <= class_ or e in self.promoted]
            assert self.order.cost_before(class_) == sum(entry.cost for entry in before)
            assert self.order.someone_before(class_) == bool(before)


TestOrder = Order.TestCase
TestOrder.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
