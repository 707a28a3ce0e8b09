"""What fair turns promise."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headrace.flow.fairness import FairTurns


def drained(turns: FairTurns[tuple[str, int]], count: int | None = None) -> list[str]:
    return [turns.pop()[0] for _ in range(len(turns) if count is None else count)]


def filled(sent: dict[str, int], **options: object) -> FairTurns[tuple[str, int]]:
    turns: FairTurns[tuple[str, int]] = FairTurns(**options)  # type: ignore[arg-type]
    for client, count in sent.items():
        for i in range(count):
            turns.push((client, i), client)
    return turns


def test_a_client_that_sent_a_thousand_does_not_hold_up_one_that_sent_two() -> None:
    assert drained(filled({"hog": 1000, "guest": 2}), 4) == ["hog", "guest", "hog", "guest"]


def test_a_client_of_three_times_the_weight_gets_three_turns() -> None:
    turns = filled({"big": 40, "small": 40}, weight_of=lambda client: 3.0 if client == "big" else 1.0)
    assert Counter(drained(turns, 40)) == {"big": 30, "small": 10}


def test_weights_below_one_are_served_too() -> None:
    turns = filled({"a": 20, "b": 20}, weight_of=lambda client: 0.25 if client == "b" else 0.5)
    assert Counter(drained(turns, 18)) == {"a": 12, "b": 6}


def test_turns_are_fair_by_cost_and_not_by_number() -> None:
    turns: FairTurns[tuple[str, int]] = FairTurns(quantum=10.0)
    for i in range(60):
        turns.push(("heavy", i), "heavy", 10.0)
        turns.push(("light", i), "light", 1.0)
    served = Counter(drained(turns, 44))
    assert served == {"heavy": 4, "light": 40}


def test_an_entry_of_any_cost_is_served_without_going_round_a_million_times() -> None:
    turns: FairTurns[str] = FairTurns(quantum=1.0)
    turns.push("huge", "a", 1e12)
    turns.push("large", "b", 1e11)
    assert [turns.pop(), turns.pop()] == ["large", "huge"]


def test_within_a_client_the_first_comes_first() -> None:
    turns = filled({"a": 5, "b": 3})
    order = [turns.pop() for _ in range(8)]
    for client in "ab":
        numbers = [i for name, i in order if name == client]
        assert numbers == sorted(numbers)


def test_a_client_without_entries_is_forgotten() -> None:
    turns: FairTurns[int] = FairTurns()
    for i in range(10_000):
        turns.push(i, f"client {i}")
        assert turns.pop() == i
        assert turns.clients == 0


def test_who_gave_up_pays_nothing_and_who_was_served_out_of_turn_pays_later() -> None:
    turns = filled({"a": 6, "b": 6})
    turns.discard(("a", 0))
    turns.discard(("a", 1))
    assert drained(turns, 4).count("a") == 2
    turns = filled({"a": 6, "b": 6})
    turns.take(("a", 0))
    turns.take(("a", 1))
    assert drained(turns, 6).count("a") == 2  # two less than it would have had


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: FairTurns(quantum=0),
        lambda: FairTurns(quantum=float("nan")),
        lambda: FairTurns[int]().push(1, "a", 0.0),
        lambda: FairTurns[int]().push(1, "a", float("inf")),
        lambda: filled({"a": 1}, weight_of=lambda _: 0.0).peek(),
        lambda: filled({"a": 1}).push(("a", 0), "a"),
    ],
)
def test_nonsense_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match=r"above 0|already"):
        wrong()  # type: ignore[operator]
    with pytest.raises(IndexError):
        FairTurns[int]().pop()


@given(
    weights=st.lists(st.sampled_from([0.5, 1.0, 2.0, 5.0]), min_size=2, max_size=5),
    costs=st.lists(st.sampled_from([0.5, 1.0, 3.0, 8.0]), min_size=1, max_size=8),
)
@settings(max_examples=150, deadline=None)
def test_while_all_have_something_waiting_each_gets_its_share_to_within_one_turn(
    weights: list[float], costs: list[float]
) -> None:
    """The bound of Shreedhar and Varghese: shares differ by less than a turn's credit and one entry."""
    turns: FairTurns[tuple[int, int]] = FairTurns(weight_of=lambda client: weights[int(str(client))])
    for client in range(len(weights)):
        for i, cost in zip(range(400), itertools.cycle(costs), strict=False):
            turns.push((client, i), client, cost)
    served = dict.fromkeys(range(len(weights)), 0.0)
    for _ in range(300):
        client, i = turns.pop()
        served[client] += costs[i % len(costs)]
    per_weight = [served[client] / weight for client, weight in enumerate(weights)]
    assert max(per_weight) - min(per_weight) <= 2 * (1 + max(costs) / min(weights))


class Turns(RuleBasedStateMachine):
    """Beside a plain model: lists of what each client has waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.turns: FairTurns[int] = FairTurns()
        self.model: dict[str, list[int]] = {}
        self.numbers = itertools.count()

    @rule(client=st.sampled_from("abcd"), cost=st.sampled_from([1.0, 1.0, 2.5, 7.0]))
    def push(self, client: str, cost: float) -> None:
        number = next(self.numbers)
        self.turns.push(number, client, cost)
        self.model.setdefault(client, []).append(number)

    @precondition(lambda self: any(self.model.values()))
    @rule()
    def pop(self) -> None:
        expected = self.turns.peek()
        assert self.turns.peek() == expected
        served = self.turns.pop()
        assert served == expected
        (client,) = (name for name, line in self.model.items() if served in line)
        assert self.model[client].pop(0) == served

    @precondition(lambda self: any(self.model.values()))
    @rule(data=st.data(), serve=st.booleans())
    def leave(self, data: st.DataObject, serve: bool) -> None:
        entry = data.draw(st.sampled_from(sorted(itertools.chain(*self.model.values()))))
        if serve:
            self.turns.take(entry)
        else:
            assert self.turns.discard(entry)
        assert not self.turns.discard(entry)
        for line in self.model.values():
            if entry in line:
                line.remove(entry)

    @invariant()
    def same(self) -> None:
        everything = sorted(itertools.chain(*self.model.values()))
        assert len(self.turns) == len(everything)
        assert self.turns.oldest() == (everything[0] if everything else None)
        assert (self.turns.peek() is None) == (not everything)
        assert self.turns.clients == sum(bool(line) for line in self.model.values())
        for client, line in self.model.items():
            assert self.turns.waiting_of(client) == len(line)


TestTurns = Turns.TestCase
TestTurns.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
