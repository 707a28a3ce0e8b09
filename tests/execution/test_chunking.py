from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.execution.chunking import Source, chunks


@given(st.lists(st.integers()), st.integers(1, 12))
def test_chunks_are_the_source_cut_up(items: list[int], size: int) -> None:
    cut = list(chunks(iter(items), size))
    assert [item for chunk in cut for item in chunk] == items
    assert all(len(chunk) == size for chunk in cut[:-1])
    assert all(0 < len(chunk) <= size for chunk in cut)


def test_a_thousand_references_in_chunks_of_200_are_five_contiguous_chunks() -> None:
    cut = list(chunks(range(1_000), 200))
    assert [(chunk[0], chunk[-1]) for chunk in cut] == [(200 * n, 200 * n + 199) for n in range(5)]


def test_chunking_never_reads_ahead() -> None:
    pulled = []

    def source() -> Iterator[int]:
        for n in range(100):
            pulled.append(n)
            yield n

    cut = chunks(source(), 3)
    assert pulled == []
    assert next(cut) == [0, 1, 2]
    assert pulled == [0, 1, 2]


def test_a_chunk_of_nothing_is_refused_at_the_call() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        chunks([], 0)


def test_sources_of_both_kinds_end_raise_and_close_alike() -> None:
    closed = []

    def blocking() -> Iterator[int]:
        try:
            yield 1
            raise LookupError("gone")
        finally:
            closed.append("blocking")

    async def asynchronous() -> AsyncIterator[int]:
        try:
            yield 1
            raise LookupError("gone")
        finally:
            closed.append("async")

    async def go() -> None:
        first, second = Source(blocking()), Source(asynchronous())
        assert (first.is_async, second.is_async) == (False, True)
        assert first.pull() == (1,) == await second.receive()
        assert first.pull() is None
        assert await second.receive() is None
        assert first.ended
        assert second.ended
        assert str(first.error) == str(second.error) == "gone"
        unread = blocking()
        next(unread)
        await Source(unread).aclose()

    asyncio.run(go())
    assert closed == ["blocking", "async", "blocking"]


def test_a_source_gives_no_more_than_it_is_asked_for() -> None:
    source = Source(iter(range(5)))
    assert source.pull_many(3) == [0, 1, 2]
    assert not source.ended
    assert source.pull_many(3) == [3, 4]
    assert source.ended


def test_what_a_source_gave_before_it_raised_is_kept() -> None:
    def breaks() -> Iterator[int]:
        yield from range(3)
        raise LookupError("gone")

    source = Source(breaks())
    assert source.pull_many(10) == [0, 1, 2]
    assert source.ended
    assert str(source.error) == "gone"
