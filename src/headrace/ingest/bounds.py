"""The bounds of a run, worked out before it starts: each a number with the sum that led to it.

machine (cores, memory)  +  settings (what somebody set)  +  engine cost (what a worker takes)
    -> worker ceiling -> workers -> window -> byte budget
    -> parent ceiling + workers x worker ceiling = tree ceiling <= memory limit, or the start is refused
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from headrace.flow.machine import Machine
from headrace.flow.sizing import (
    Derived,
    capacity,
    delay,
    readable_bytes,
    readable_rate,
    worker_count,
    worst_case_bytes,
)
from headrace.ingest.engine_costs import PARENT_AT_REST_BYTES, RESULT_BYTES, EngineCost
from headrace.ingest.options import OPTIONS
from headrace.ingest.settings import RunSettings, SettingsError
from headrace.ingest.values import readable_number

MEMORY_SHARE = 0.8
"""How much of the memory that is there a run takes when nobody sets a limit: the rest is for the page cache."""

HEAD_STALL_S = 30.0
"""A document that takes this long at the head of the window does not yet make a worker idle."""

WINDOW_PER_WORKER, WINDOW_AT_MOST = 8, 256
"""However fast or slow the engine: this many places a worker at least, this many in all at most."""

RECYCLE_EVERY_S = 1800.0
"""A worker's start costs about a second of this: under 0.1 % of its work, whatever a native library leaks meanwhile."""

USUAL_DOCUMENT_BYTES = 2 * 2**20
"""A photograph of a receipt by a telephone; what a place in the window is worth in the byte budget."""


class UnsafeSettings(SettingsError):
    """The settings could take more memory than there is. Shows the sum; ends with exit code 9."""

    exit_code: ClassVar[int] = 9


@dataclass(frozen=True, slots=True)
class Bounds:
    """Every bound of a run as a plain number; `sums` has the same numbers with what led to them.

    Attributes:
        workers: processes that read documents.
        window: documents submitted and not yet handed on.
        read_ahead: names read from the source at a time.
        byte_budget_bytes: what the documents in the window may have together (the head is always admitted).
        memory_limit_bytes: what the whole tree may take.
        parent_ceiling_bytes: what the parent takes at most.
        worker_ceiling_bytes: what one worker takes at most: above it, it is killed.
        tree_ceiling_bytes: parent and workers together; never above the memory limit.
        page_bytes: what decoding one page may take; a page that needs more fails as image-too-large.
        worker_recycle_rss_bytes: a worker above this is replaced after its document.
        worker_recycle_after: documents after which a worker is replaced.
        page_timeout_s: for one page.
        documents_per_s: what to expect, at one page a document.
        usual_delay_s: how long a document is in the window when nothing is slow: window over rate (Little).
        worst_delay_s: the promise: however slow its neighbours, a document is in the window no longer than this. (A
            neighbour whose worker dies is read again: that adds the time it had taken until then.)
        sums: each of these by name, in the order in which they are shown; one that was set says by whom.
    """

    workers: int
    window: int
    read_ahead: int
    byte_budget_bytes: int
    memory_limit_bytes: int
    parent_ceiling_bytes: int
    worker_ceiling_bytes: int
    tree_ceiling_bytes: int
    page_bytes: int
    worker_recycle_rss_bytes: int
    worker_recycle_after: int
    page_timeout_s: float
    documents_per_s: float
    usual_delay_s: float
    worst_delay_s: float
    sums: Mapping[str, Derived[int] | Derived[float]]


def derive(settings: RunSettings, machine: Machine, cost: EngineCost) -> Bounds:
    """Works out every bound of a run.

    Args:
        settings: what was set; it wins over what would be derived.
        machine: what there is.
        cost: what the engine takes.

    Raises:
        UnsafeSettings: not even one worker fits the memory, or what was set could take more than the limit.
    """
    memory = _memory(settings, machine)
    worker_most = _worker_ceiling(settings, cost)
    # The window needs the number of workers, and the memory for workers needs the window's: the largest window counts.
    window_most = settings.window or WINDOW_AT_MOST
    parent_most = _parent_ceiling(window_most)
    workers = _set(settings, "workers") or worker_count(
        machine.cores.value, memory.value, parent_most.value, worker_most.value
    )
    if workers.value < 1:
        raise UnsafeSettings((_too_little_memory(cost, memory, parent_most, worker_most),))

    rate_per_s = workers.value / cost.seconds_per_page
    rate_because = (
        f"{workers.value} workers / {cost.seconds_per_page:g} s a page ({cost.engine}) = {readable_rate(rate_per_s)}"
    )
    window = _set(settings, "window") or _window(workers.value, rate_per_s)
    parent = _parent_ceiling(window.value)
    tree = worst_case_bytes(parent.value, workers.value, worker_most.value)
    if tree.value > memory.value:
        raise UnsafeSettings((_over_the_limit(tree, memory),))
    rounds = math.ceil(window.value / workers.value)
    worst_s = rounds * settings.document_timeout_s  # once: a document that took all of its time is not read again
    worst_because = f"{rounds} rounds x {settings.document_timeout_s:g} s = {worst_s:g} s"
    read_ahead = Derived(settings.read_ahead, "names", f"{settings.origin('read_ahead')}: {settings.read_ahead}")
    byte_budget = _set(settings, "byte_budget_bytes") or _byte_budget(settings, window.value)
    page = _page_bytes(settings, cost)
    recycle = _set(settings, "worker_recycle_rss_bytes") or _recycle(cost, worker_most.value)
    recycle_after = _set(settings, "worker_recycle_after") or _recycle_after(cost)
    page_timeout = _page_timeout(settings)
    rate = Derived(rate_per_s, "documents/s", rate_because)
    usual = delay(window.value, rate_per_s)
    worst = Derived(worst_s, "s", f"window {window.value} / {workers.value} workers = {worst_because}")
    sums: dict[str, Derived[int] | Derived[float]] = {
        "workers": workers,
        "window": window,
        "read_ahead": read_ahead,
        "byte_budget_bytes": byte_budget,
        "memory_limit_bytes": memory,
        "parent_ceiling_bytes": parent,
        "worker_ceiling_bytes": worker_most,
        "tree_ceiling_bytes": tree,
        "page_bytes": page,
        "worker_recycle_rss_bytes": recycle,
        "worker_recycle_after": recycle_after,
        "page_timeout_s": page_timeout,
        "documents_per_s": rate,
        "usual_delay_s": usual,
        "worst_delay_s": worst,
    }
    return Bounds(
        workers=workers.value,
        window=window.value,
        read_ahead=read_ahead.value,
        byte_budget_bytes=byte_budget.value,
        memory_limit_bytes=memory.value,
        parent_ceiling_bytes=parent.value,
        worker_ceiling_bytes=worker_most.value,
        tree_ceiling_bytes=tree.value,
        page_bytes=page.value,
        worker_recycle_rss_bytes=recycle.value,
        worker_recycle_after=recycle_after.value,
        page_timeout_s=page_timeout.value,
        documents_per_s=rate.value,
        usual_delay_s=usual.value,
        worst_delay_s=worst.value,
        sums=MappingProxyType(sums),
    )


def _set(settings: RunSettings, name: str) -> Derived[int] | None:
    value = getattr(settings, name)
    if value is None:
        return None
    origin = settings.origin(name)
    place = str(origin) if origin.kind != "default" else "the caller"
    option = OPTIONS[name]
    return Derived(value, option.unit, f"set by {place}: {readable_number(option, value)}")


def _memory(settings: RunSettings, machine: Machine) -> Derived[int]:
    there = machine.memory_bytes
    by_hand = _set(settings, "memory_limit_bytes")
    if by_hand is not None:
        # Allowed, as what is free changes by the minute; but nobody shall overlook it.
        note = f", more than there is now: {there.because}" if by_hand.value > there.value else ""
        return Derived(by_hand.value, "bytes", by_hand.because + note)
    value = int(there.value * MEMORY_SHARE)
    return Derived(value, "bytes", f"{MEMORY_SHARE:.0%} of ({there.because}) = {readable_bytes(value)}")


def _worker_ceiling(settings: RunSettings, cost: EngineCost) -> Derived[int]:
    by_hand = _set(settings, "worker_memory_limit_bytes")
    if by_hand is not None:
        if by_hand.value <= cost.rss_at_rest_bytes:
            raise UnsafeSettings(
                (
                    f"worker_memory_limit_bytes ({readable_bytes(by_hand.value)}) is not above what a {cost.engine} "
                    f"worker takes at rest ({readable_bytes(cost.rss_at_rest_bytes)}): it would be killed at once",
                )
            )
        return by_hand
    pixels, file = _page_bytes(settings, cost).value, settings.max_document_bytes
    if not cost.bytes_per_pixel:
        file = 0  # an engine that decodes nothing reads nothing
    value = cost.rss_peak_bytes + pixels + file
    because = (
        f"{readable_bytes(cost.rss_peak_bytes)} peak of {cost.engine} + {readable_bytes(pixels)} for the largest page "
        f"({settings.max_pixels / 1e6:g} Mpx x {cost.bytes_per_pixel:g} B) + {readable_bytes(file)} for the largest "
        f"file = {readable_bytes(value)}"
    )
    return Derived(value, "bytes", because)


def _page_bytes(settings: RunSettings, cost: EngineCost) -> Derived[int]:
    value = int(cost.bytes_per_pixel * settings.max_pixels)
    because = f"{settings.max_pixels / 1e6:g} Mpx x {cost.bytes_per_pixel:g} B = {readable_bytes(value)}"
    return Derived(value, "bytes", because)


def _parent_ceiling(window: int) -> Derived[int]:
    value = PARENT_AT_REST_BYTES + window * RESULT_BYTES
    because = (
        f"{readable_bytes(PARENT_AT_REST_BYTES)} at rest + window {window} x {readable_bytes(RESULT_BYTES)} a result "
        f"= {readable_bytes(value)}"
    )
    return Derived(value, "bytes", because)


def _window(workers: int, rate_per_s: float) -> Derived[int]:
    stall = capacity(rate_per_s, HEAD_STALL_S)
    least = WINDOW_PER_WORKER * workers
    value = max(least, min(WINDOW_AT_MOST, stall.value))
    behind_head = f"min({WINDOW_AT_MOST}, {stall.because} behind a slow head)"
    because = f"max({WINDOW_PER_WORKER} x {workers} workers, {behind_head}) = {value}"
    return Derived(value, "documents", because)


def _byte_budget(settings: RunSettings, window: int) -> Derived[int]:
    places, largest = window * USUAL_DOCUMENT_BYTES, settings.max_document_bytes
    value = max(places, largest)
    because = (
        f"max(window {window} x {readable_bytes(USUAL_DOCUMENT_BYTES)} a usual document, {readable_bytes(largest)} the "
        f"largest) = {readable_bytes(value)}"
    )
    return Derived(value, "bytes", because)


def _recycle(cost: EngineCost, ceiling_bytes: int) -> Derived[int]:
    value = min(cost.rss_peak_bytes, int(ceiling_bytes * 0.9))
    because = (
        f"min({readable_bytes(cost.rss_peak_bytes)} peak of {cost.engine}, 90% of {readable_bytes(ceiling_bytes)}) "
        f"= {readable_bytes(value)}"
    )
    return Derived(value, "bytes", because)


def _recycle_after(cost: EngineCost) -> Derived[int]:
    value = max(1, round(RECYCLE_EVERY_S / cost.seconds_per_page))
    because = f"{RECYCLE_EVERY_S:g} s of work / {cost.seconds_per_page:g} s a page = {value}"
    return Derived(value, "documents", because)


def _page_timeout(settings: RunSettings) -> Derived[float]:
    if settings.page_timeout_s is not None:
        return Derived(
            settings.page_timeout_s, "s", f"set by {settings.origin('page_timeout_s')}: {settings.page_timeout_s:g} s"
        )
    value = min(60.0, settings.document_timeout_s)
    return Derived(value, "s", f"min(60 s, document timeout {settings.document_timeout_s:g} s) = {value:g} s")


def _too_little_memory(cost: EngineCost, memory: Derived[int], parent: Derived[int], worker: Derived[int]) -> str:
    return (
        f"not even one worker fits: memory limit {readable_bytes(memory.value)} ({memory.because}), parent "
        f"{readable_bytes(parent.value)}, one {cost.engine} worker {readable_bytes(worker.value)} ({worker.because}). "
        "Raise --memory-limit, or lower --max-pixels, --max-document-bytes or --window, or take --engine tesseract"
    )


def _over_the_limit(tree: Derived[int], memory: Derived[int]) -> str:
    return (
        f"at its worst this run takes {tree.because}, which is over the memory limit {readable_bytes(memory.value)} "
        f"({memory.because}). Lower --workers, --window or --max-pixels, or raise --memory-limit"
    )
