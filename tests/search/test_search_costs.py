"""What a search costs does not grow with what it does not look for."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from search_workspace import BREAD, FOUR, HOTEL, PAINT, TAXI, add_receipts

from headrace.search import Search, update
from headrace.search import search as searching
from headrace.search.null import NullEmbedder
from headrace.search.ranking import query_words, telling, words_query
from headrace.storage.sqlite import SqliteStore

NULL = NullEmbedder()


def indexed(workspace: Path, copies: int) -> Path:
    told = [(f"{name} {number}", *rest) for number in range(copies) for name, *rest in FOUR]
    add_receipts(workspace, told)
    asyncio.run(update(workspace, NULL))
    return workspace


def steps(store: SqliteStore, model: str, change: int) -> int:
    """What SQLite does to find the vectors after this change, in units of 10 instructions."""
    taken = 0

    def step() -> int:
        nonlocal taken
        taken += 1
        return 0

    driver = store._connection.connection.driver_connection
    assert driver is not None
    driver.set_progress_handler(step, 10)
    try:
        store.vectors_since(model, change)
    finally:
        driver.set_progress_handler(None, 10)
    return taken


def test_asking_for_new_vectors_costs_the_same_for_few_receipts_and_for_many(tmp_path: Path) -> None:
    costs = []
    for copies in (2, 100):
        with SqliteStore.read(indexed(tmp_path / str(copies), copies)) as store:
            last = store.search_counts(NULL.name, 1).last_change
            assert last == 4 * copies
            costs.append(steps(store, NULL.name, last))
            assert len(store.vectors_since(NULL.name, last - 3)) == 3
    assert costs[0] == costs[1]


@pytest.mark.parametrize(
    ("receipts_with", "kept"),
    [
        ((90, 3, 5), ["taxi", "lisbon"]),
        ((3, 5, 2), ["lisbon", "total", "taxi"]),
        ((90, 80, 70), ["lisbon"]),
        ((0, 90, 10), ["total", "lisbon"]),
        ((90, 0, 80), ["taxi", "lisbon"]),
        ((0, 0, 0), ["total", "taxi", "lisbon"]),
    ],
)
def test_the_rarest_words_are_ranked_and_one_always_is(receipts_with: tuple[int, ...], kept: list[str]) -> None:
    assert telling(["total", "taxi", "lisbon"], receipts_with, 10) == kept


def test_a_word_is_counted_without_its_marks_and_whatever_its_letters(tmp_path: Path) -> None:
    with SqliteStore.read(indexed(tmp_path, 3)) as store:
        assert store.receipts_with(["BÄCKEREI", "bäckerei", "backerei", "card", "nothing"]) == [3, 3, 3, 12, 0]


@pytest.mark.parametrize("most", [1, 3, 12, 10_000])
def test_a_word_that_all_have_keeps_no_receipt_from_being_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(searching, "RANKED_MOST", most)
    with Search.open(indexed(tmp_path, 3), embedder=NULL) as search:
        for told in (TAXI, BREAD, PAINT, HOTEL):
            name = str(told[0])
            hits = search.find_blocking(f"card total {name}", limit=100).hits
            by_words = [str(hit.merchant)[:-2] for hit in hits if "words" in hit.by]
            assert by_words.count(name) == 3
            assert most > 3 or set(by_words) == {name}
        everything = search.find_blocking("card", limit=100).hits
        assert sum("words" in hit.by for hit in everything) == 12


def test_the_same_word_twice_is_one_word_and_no_word_is_no_query() -> None:
    assert query_words('taxi taxi, (OR) "*" to') == ["taxi", "OR", "to"]
    assert words_query(["taxi", "OR"]) == '"taxi" OR "OR"'
    assert query_words("?!") == []
