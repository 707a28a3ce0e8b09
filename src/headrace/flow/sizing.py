"""How much of everything: pure arithmetic on what the machine has, each answer with the sum that led to it.

Nothing here waits, allocates or decides for you: the functions take numbers and give a `Derived` number back.
`headrace.flow.machine` reads what the machine has.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Number = TypeVar("Number", int, float)

KIB, MIB, GIB = 2**10, 2**20, 2**30


@dataclass(frozen=True, slots=True)
class Derived(Generic[Number]):
    """A number that was worked out, and why it is that number.

    Attributes:
        value: the number, in `unit`.
        unit: `workers`, `documents`, `bytes`, `s`, `documents/s`, ...
        because: the sum as a person would write it down, ending in the value.
    """

    value: Number
    unit: str
    because: str


def readable_bytes(size_bytes: float) -> str:
    """A size for people, in binary units: `1.5 GiB`, `640 MiB`, `12 KiB`, `7 B`."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if abs(size_bytes) >= unit:
            amount = size_bytes / unit
            return f"{amount:.1f}".removesuffix(".0") + f" {name}" if amount < 100 else f"{amount:,.0f} {name}"
    return f"{size_bytes:.0f} B"


def readable_rate(rate_per_s: float) -> str:
    """A rate for people: `1.18`, `44.4`, `2,000`; the unit is the caller's."""
    return f"{rate_per_s:,.0f}" if abs(rate_per_s) >= 100 else f"{rate_per_s:.3g}"


def capacity(arrival_per_s: float, delay_s: float, unit: str = "documents") -> Derived[int]:
    """How many are in flight when `arrival_per_s` come and each stays `delay_s`: Little's law, L = lambda x W.

    Read the other way it is a promise: with this many permits, nobody who was let in waits longer than `delay_s` as
    long as they leave at that rate. (Little, 1961: "A proof for the queuing formula L = lambda W".)

    Raises:
        ValueError: a number is not finite or not above zero.
    """
    _positive(arrival_per_s=arrival_per_s, delay_s=delay_s)
    value = max(1, math.ceil(arrival_per_s * delay_s))
    return Derived(value, unit, f"{readable_rate(arrival_per_s)} per s x {delay_s:g} s = {value}")


def room(departure_per_s: float, delay_s: float, *, variation: float = 1.0, unit: str = "documents") -> Derived[int]:
    """How many may be in flight so that 99 of 100 leave within `delay_s`, though no two take the same time.

    In that time N = rate x delay leave on average, and one time in a hundred only N - 2.33 v sqrt(N): the departures of
    workers that are never idle are a renewal process, whose variance is v^2 N. (Cox, 1962: "Renewal Theory", 3.3.)

    Args:
        departure_per_s: how many leave when more are waiting.
        delay_s: what is promised.
        variation: deviation / mean of the time that one takes a worker; 0 when all take the same.
        unit: what is counted.

    Raises:
        ValueError: rate or delay is not above zero, or `variation` is negative or not finite.
    """
    _positive(departure_per_s=departure_per_s, delay_s=delay_s)
    if not (math.isfinite(variation) and variation >= 0):
        raise ValueError(f"variation must be finite and not negative, not {variation!r}")
    mean = departure_per_s * delay_s
    spread = 2.33 * variation * math.sqrt(mean)
    value = max(1, math.floor(mean - spread))
    told = f"{delay_s:g} s x {readable_rate(departure_per_s)} per s = {mean:.3g}"
    if spread:
        told += f", less {spread:.2g} as times differ (p99) = {value}"
    return Derived(value, unit, told)


def delay(in_flight: int, departure_per_s: float) -> Derived[float]:
    """How long the last of `in_flight` stays when they leave at `departure_per_s`: Little's law for the time.

    Raises:
        ValueError: a number is not finite or not above zero.
    """
    _positive(in_flight=in_flight, departure_per_s=departure_per_s)
    value = in_flight / departure_per_s
    return Derived(value, "s", f"{in_flight} / {readable_rate(departure_per_s)} per s = {value:.3g} s")


def worker_count(cores: int, memory_bytes: int, parent_bytes: int, worker_bytes: int) -> Derived[int]:
    """How many workers there is room for: one a core, as far as the memory goes; 0 when not even one fits.

    Args:
        cores: what `available_cores` says.
        memory_bytes: what the whole tree may take.
        parent_bytes: what the parent takes of it at most.
        worker_bytes: what one worker takes at most.

    Raises:
        ValueError: cores or worker_bytes is not above zero.
    """
    _positive(cores=cores, worker_bytes=worker_bytes)
    fitting = max(0, (memory_bytes - parent_bytes) // worker_bytes)
    value = min(cores, fitting)
    room = f"({readable_bytes(memory_bytes)} - {readable_bytes(parent_bytes)}) / {readable_bytes(worker_bytes)}"
    return Derived(value, "workers", f"min({cores} cores, {room} = {fitting}) = {value}")


def chunk_size(budget_bytes: int, item_bytes: int, at_most: int) -> Derived[int]:
    """How many items go together so that all of them fit a budget, even when each is as large as it may be.

    Never less than 1: an item that is larger than the budget goes alone rather than nowhere.

    Raises:
        ValueError: a number is not above zero.
    """
    _positive(budget_bytes=budget_bytes, item_bytes=item_bytes, at_most=at_most)
    value = max(1, min(at_most, budget_bytes // item_bytes))
    room = f"{readable_bytes(budget_bytes)} / {readable_bytes(item_bytes)}"
    return Derived(value, "items", f"max(1, min({at_most}, {room})) = {value}")


def worst_case_bytes(parent_bytes: int, workers: int, worker_bytes: int) -> Derived[int]:
    """What the whole tree takes when every process stands at its own ceiling at the same moment."""
    value = parent_bytes + workers * worker_bytes
    shown = f"{readable_bytes(parent_bytes)} + {workers} x {readable_bytes(worker_bytes)} = {readable_bytes(value)}"
    return Derived(value, "bytes", shown)


@dataclass(frozen=True, slots=True)
class ServiceTimes:
    """How long one item takes one worker, as measured.

    Attributes:
        count: how many were measured.
        mean_s: their mean.
        deviation_s: their standard deviation.
        p50_s: half took no longer.
        p95_s: 95 % took no longer.
        longest_s: the longest.
    """

    count: int
    mean_s: float
    deviation_s: float
    p50_s: float
    p95_s: float
    longest_s: float

    @classmethod
    def measured(cls, times_s: Sequence[float]) -> ServiceTimes:
        """Sums up measured times. Twenty are little, a hundred are well.

        Raises:
            ValueError: there are none, or one is negative or not finite.
        """
        if not times_s or not all(math.isfinite(time_s) and time_s >= 0 for time_s in times_s):
            raise ValueError("needs at least one service time, each finite and not negative")
        ordered = sorted(times_s)
        mean_s = math.fsum(ordered) / len(ordered)
        deviation_s = math.sqrt(math.fsum((time_s - mean_s) ** 2 for time_s in ordered) / len(ordered))
        p50_s, p95_s = (ordered[math.ceil(part * len(ordered)) - 1] for part in (0.5, 0.95))
        return cls(len(ordered), mean_s, deviation_s, p50_s, p95_s, ordered[-1])


def service_rate(workers: int, times: ServiceTimes) -> Derived[float]:
    """How many items so many workers finish per second when they never wait."""
    _positive(workers=workers, mean_s=times.mean_s)
    value = workers / times.mean_s
    shown = f"{workers} workers / {times.mean_s:.3g} s = {readable_rate(value)} per s (of {times.count} measured)"
    return Derived(value, "items/s", shown)


def workers_for(arrival_per_s: float, times: ServiceTimes, *, most_busy: float = 0.8) -> Derived[int]:
    """How many workers keep up with what arrives, and are busy for no more than `most_busy` of their time.

    Above about 0.8 the wait grows steeply with every percent (see `expected_wait`).

    Raises:
        ValueError: a number is not above zero, or `most_busy` is not below 1.
    """
    _positive(arrival_per_s=arrival_per_s, mean_s=times.mean_s, most_busy=most_busy)
    if most_busy >= 1:
        raise ValueError(f"workers that are always busy never catch up: most_busy must be below 1, not {most_busy}")
    load = arrival_per_s * times.mean_s
    value = max(1, math.ceil(load / most_busy - 1e-9))
    shown = f"{readable_rate(arrival_per_s)} per s x {times.mean_s:.3g} s / {most_busy:g} busy = {value}"
    return Derived(value, "workers", shown)


def expected_wait(arrival_per_s: float, workers: int, times: ServiceTimes) -> Derived[float]:
    """How long an item waits for a worker on average: Erlang's C, corrected for how much service times differ.

    The arrivals are taken to be independent (Poisson). (Allen and Cunneen's approximation for M/G/c: the wait of M/M/c
    times (1 + c^2) / 2, where c is deviation / mean.) Infinite when the workers cannot keep up.

    Raises:
        ValueError: a number is not above zero.
    """
    _positive(arrival_per_s=arrival_per_s, workers=workers, mean_s=times.mean_s)
    load = arrival_per_s * times.mean_s
    if load >= workers:
        return Derived(math.inf, "s", f"{load:.3g} workers' worth arrives for {workers}: the line grows without end")
    blocked = 1.0  # Erlang's B, worker by worker: stays exact where factorials would overflow
    for count in range(1, workers + 1):
        blocked = load * blocked / (count + load * blocked)
    waits = blocked / (1 - load / workers * (1 - blocked))
    variation = times.deviation_s / times.mean_s
    value = waits * times.mean_s / (workers - load) * (1 + variation**2) / 2
    shown = (
        f"{waits:.0%} wait, at {load / workers:.0%} busy and a variation of {variation:.2g}: {value:.3g} s on average"
    )
    return Derived(value, "s", shown)


def permits(workers: int, times: ServiceTimes, refill_s: float = 0.0) -> Derived[int]:
    """How many items to let in so that no worker is ever idle, and not one more: what is worked on and what is coming.

    Args:
        workers: how many can be worked on at once.
        times: how long one takes.
        refill_s: how long it takes from the end of one item until the next has reached its worker.

    Raises:
        ValueError: a number is not above zero, or `refill_s` is negative.
    """
    _positive(workers=workers, mean_s=times.mean_s)
    if not (math.isfinite(refill_s) and refill_s >= 0):
        raise ValueError(f"refill_s must be finite and not negative, not {refill_s!r}")
    coming = math.ceil(workers * refill_s / times.mean_s - 1e-9)
    value = workers + coming
    shown = f"{workers} worked on + {workers} x {refill_s:g} s / {times.mean_s:.3g} s coming = {value}"
    return Derived(value, "permits", shown)


def longest_wait(capacities: Mapping[str, int], rate_per_s: float) -> Derived[float]:
    """The shortest longest wait that a ladder with these lines can promise: everything that they hold, served first.

    Raises:
        ValueError: a number is not above zero.
    """
    _positive(rate_per_s=rate_per_s, **{f"capacity of {name}": capacity for name, capacity in capacities.items()})
    total = sum(capacities.values())
    value = (total + 1) / rate_per_s
    shown = " + ".join(f"{capacity} {name}" for name, capacity in capacities.items())
    return Derived(value, "s", f"({shown} + 1) / {readable_rate(rate_per_s)} per s = {value:.3g} s")


def low_water(high_water: float, drain_per_s: float, quiet_s: float) -> Derived[float]:
    """Where a gate opens again, so that it stays closed for about `quiet_s` and does not flap; at least 0.

    Raises:
        ValueError: a number is not above zero.
    """
    _positive(high_water=high_water, drain_per_s=drain_per_s, quiet_s=quiet_s)
    value = max(0.0, high_water - drain_per_s * quiet_s)
    shown = f"max(0, {high_water:g} - {readable_rate(drain_per_s)} per s x {quiet_s:g} s) = {value:g}"
    return Derived(value, "", shown)


def worst_case_held_bytes(held: Mapping[str, tuple[int, int]]) -> Derived[int]:
    """What everything in flight takes when each place holds as many as it may, each as large as it may be.

    Args:
        held: for each place (channel, window, workers) how many it holds and how many bytes each may have.

    Raises:
        ValueError: a number is negative.
    """
    if any(count < 0 or size_bytes < 0 for count, size_bytes in held.values()):
        raise ValueError(f"counts and sizes cannot be negative: {dict(held)}")
    value = sum(count * size_bytes for count, size_bytes in held.values())
    terms = [f"{count} x {readable_bytes(size)} in {name}" for name, (count, size) in held.items()] or ["nothing"]
    return Derived(value, "bytes", f"{' + '.join(terms)} = {readable_bytes(value)}")


def _positive(**numbers: float) -> None:
    for name, number in numbers.items():
        if not math.isfinite(number) or number <= 0:
            raise ValueError(f"{name} must be a finite number above 0, not {number!r}")
