from __future__ import annotations

import asyncio
import datetime as dt
import json
import math
import subprocess
import sys
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import pytest
from search_workspace import BREAD, FOUR, HOTEL, TAXI, add_receipts, correct, receipts_in, review

from headrace.documents.status import Verdict
from headrace.search import BadQuery, EmbedderFailed, Filters, Found, Search, Tokens, Vector, rebuild, update
from headrace.search.minilm import MiniLM
from headrace.search.null import NullEmbedder
from headrace.search.vector_index import FOLDER, index_file
from headrace.storage.errors import WorkspaceBusy, WorkspaceMissing
from headrace.storage.sqlite import SqliteStore

NULL = NullEmbedder()


def indexed(workspace: Path, *, save: bool = False) -> None:
    asyncio.run(update(workspace, NULL))
    if save:
        asyncio.run(rebuild(workspace, NULL.name))


def found(workspace: Path, words: str, **filters: object) -> Found:
    with Search.open(workspace, embedder=NullEmbedder()) as search:
        return search.find_blocking(words, filters=Filters(**filters))  # type: ignore[arg-type]


def merchants(result: Found) -> list[str | None]:
    return [hit.merchant for hit in result.hits]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    add_receipts(tmp_path, FOUR)
    return tmp_path


@pytest.mark.parametrize("save", [False, True], ids=["one by one", "by the file"])
def test_every_receipt_is_found_exactly_once_and_nothing_else_is(workspace: Path, save: bool) -> None:
    indexed(workspace, save=save)
    result = found(workspace, "bread taxi paint nights")
    assert result.complete
    assert sorted(hit.entry.sequence for hit in result.hits) == [one.sequence for one in receipts_in(workspace)]
    assert {hit.by for hit in result.hits} == {("words", "meaning")}


def test_the_model_of_the_wheel_finds_by_meaning_what_no_word_finds(workspace: Path) -> None:
    model = MiniLM(sessions=1)
    asyncio.run(update(workspace, model))
    with Search.open(workspace, embedder=model) as search:
        cab = search.find_blocking("cab").hits[0]
        assert (cab.merchant, cab.by) == (TAXI[0], ("meaning",))
        assert search.find_blocking("accommodation in Italy").hits[0].merchant == HOTEL[0]
        assert search.find_blocking("renovation material").hits[0].merchant == "Hardware Depot"


def test_the_model_loads_in_a_process_that_has_the_index_already(workspace: Path) -> None:
    indexed(workspace, save=True)
    script = (
        "import sys; from pathlib import Path; from headrace.search.null import NullEmbedder;"
        "from headrace.search import Search; search = Search.open(Path(sys.argv[1]), embedder=NullEmbedder());"
        "search.find_blocking('bread'); assert 'usearch' in sys.modules; search.close();"
        "from headrace.search.minilm import MiniLM; MiniLM(sessions=1)"
    )
    assert subprocess.run([sys.executable, "-c", script, workspace], check=False).returncode == 0


def test_words_are_found_without_their_marks(workspace: Path) -> None:
    indexed(workspace)
    for words in ("backerei", "BÄCKEREI", "grun"):
        hit = found(workspace, words).hits[0]
        assert hit.merchant == BREAD[0]
        assert "words" in hit.by


@pytest.mark.parametrize(
    "words", ['" OR 1', "NEAR(", "text:x", "*", "a AND NOT b", "'; DROP TABLE entries; --", "🍞", "\ud83c"]
)
def test_what_the_index_of_words_gives_a_meaning_to_is_taken_literally(workspace: Path, words: str) -> None:
    indexed(workspace)
    assert len(found(workspace, words).hits) == 4


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({"after": dt.date(2026, 2, 3)}, {"Radio Táxis de Lisboa", "Hotel Aurora"}),
        ({"before": dt.date(2026, 1, 20)}, {"Bäckerei Grün", "Hardware Depot"}),
        ({"after": dt.date(2026, 2, 4), "before": dt.date(2026, 2, 4)}, {"Hotel Aurora"}),
        ({"min_total": Decimal("61.40")}, {"Radio Táxis de Lisboa", "Hardware Depot", "Hotel Aurora"}),
        ({"min_total": Decimal("61.4001")}, {"Hardware Depot", "Hotel Aurora"}),
        ({"max_total": Decimal("7.85")}, {"Bäckerei Grün"}),
        ({"merchant": "hotel-AUR"}, {"Hotel Aurora"}),
        ({"merchant": "100%"}, set()),
        ({"currency": "gbp"}, {"Hardware Depot"}),
        ({"verdict": Verdict.REJECTED}, set()),
        ({"batch": 2}, set()),
        ({"book": "main", "batch": 1, "currency": "GBP"}, {"Hardware Depot"}),
        ({"book": "other"}, set()),
    ],
)
def test_a_filter_lets_through_what_it_says_and_nothing_else(
    workspace: Path, filters: dict[str, object], names: set[str]
) -> None:
    indexed(workspace)
    assert set(merchants(found(workspace, "bread taxi", **filters))) == names


def test_filters_that_many_pass_are_answered_by_the_index(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    indexed(workspace, save=True)
    exactly = found(workspace, "bread taxi", currency="EUR")
    monkeypatch.setattr("headrace.search.nearest.EXACT_MOST", 2)
    widely = found(workspace, "bread taxi", currency="EUR")
    assert merchants(widely) == merchants(exactly)
    assert [h.similarity for h in widely.hits] == pytest.approx([h.similarity for h in exactly.hits], abs=2e-3)


@pytest.mark.parametrize(
    "filters", [{"min_total": Decimal("NaN")}, {"merchant": "..."}, {"min_total": Decimal(2), "max_total": Decimal(1)}]
)
def test_a_filter_that_makes_no_sense_says_so(workspace: Path, filters: dict[str, object]) -> None:
    with pytest.raises(BadQuery):
        found(workspace, "bread", **filters)


def test_nothing_to_look_for_is_an_error_and_no_list_of_everything(workspace: Path) -> None:
    with pytest.raises(BadQuery, match="give some words"):
        found(workspace, "  ")


def test_what_is_not_indexed_is_said_before_after_and_in_between(workspace: Path) -> None:
    before = found(workspace, "bread")
    assert (before.hits, before.complete) == ((), False)
    assert before.lacking == ["6 entries of the ledger are not indexed yet and cannot be found"]
    indexed(workspace)
    assert found(workspace, "bread").complete
    add_receipts(workspace, [TAXI], key="more")
    assert found(workspace, "bread").entries_behind == 3
    other = NullEmbedder(8)  # as after a change of the model
    with Search.open(workspace, embedder=other) as search:
        result = search.find_blocking("bread")
    assert result.without_vector == 4
    assert [hit.by for hit in result.hits] == [("words",)]


def test_a_correction_moves_the_receipt_to_its_new_words_and_keeps_it_once(workspace: Path) -> None:
    indexed(workspace, save=True)
    outcome = receipts_in(workspace)[1]
    changes = {"merchant": {"name": {"value": "Ferry Line"}}, "line_items": None, "payable_amount": {"value": "9.10"}}
    correct(workspace, outcome, changes)
    indexed(workspace)
    result = found(workspace, "ferry")
    assert (result.hits[0].merchant, result.hits[0].total) == ("Ferry Line", Decimal("9.10"))
    assert result.hits[0].by == ("words", "meaning")
    assert len(result.hits) == len({hit.entry.sequence for hit in result.hits}) == 4
    assert all("words" not in hit.by for hit in found(workspace, "bread").hits)
    asyncio.run(rebuild(workspace, NULL.name))
    assert len(found(workspace, "ferry").hits) == 4


def test_a_review_changes_the_verdict_and_embeds_nothing_again(workspace: Path) -> None:
    indexed(workspace)
    review(workspace, receipts_in(workspace)[0], Verdict.REJECTED)
    progress = asyncio.run(update(workspace, NULL))
    assert (progress.taken_in, progress.embedded) == (1, 0)
    assert merchants(found(workspace, "bread", verdict=Verdict.REJECTED)) == [TAXI[0]]


def test_an_update_without_news_writes_nothing(workspace: Path) -> None:
    indexed(workspace, save=True)
    before = index_file(workspace, NULL.name)
    progress = asyncio.run(update(workspace, NULL))
    assert (progress.taken_in, progress.embedded, progress.index_written) == (0, 0, False)
    assert index_file(workspace, NULL.name) == before


def test_a_new_model_embeds_everything_again_and_finds_everything_once(workspace: Path) -> None:
    indexed(workspace, save=True)
    other = NullEmbedder(16)
    progress = asyncio.run(update(workspace, other))
    assert progress.embedded == 4
    with Search.open(workspace, embedder=other) as search:
        result = search.find_blocking("bread taxi")
    assert result.complete
    assert len({hit.entry.sequence for hit in result.hits}) == len(result.hits) == 4


@pytest.mark.parametrize("harm", ["removed", "cut off", "note torn", "from the future"])
def test_an_index_file_that_is_lost_or_harmed_costs_nothing_but_time(workspace: Path, harm: str) -> None:
    indexed(workspace, save=True)
    told = index_file(workspace, NULL.name)
    assert told is not None
    file, note = workspace / FOLDER / told.file, workspace / FOLDER / "index.json"
    if harm == "removed":
        file.unlink()
    elif harm == "cut off":
        file.write_bytes(file.read_bytes()[:-10])
    elif harm == "note torn":
        note.write_text('{"file": ')
    else:
        note.write_text(json.dumps(json.loads(note.read_text()) | {"change": 10_000}))
        indexed(workspace)
    result = found(workspace, "bread taxi")
    assert result.complete
    assert len(result.hits) == 4
    indexed(workspace)
    assert index_file(workspace, NULL.name) is not None
    assert len(found(workspace, "bread taxi").hits) == 4


def test_an_open_search_sees_what_is_indexed_meanwhile_and_a_new_file(workspace: Path) -> None:
    with Search.open(workspace, embedder=NullEmbedder()) as search:
        assert search.find_blocking("bread").hits == ()
        indexed(workspace)
        assert len(search.find_blocking("bread").hits) == 4
        add_receipts(workspace, [(*HOTEL[:1], "a late dinner", *HOTEL[2:])], key="more")
        indexed(workspace, save=True)
        assert len(search.find_blocking("dinner").hits) == 5


def test_beyond_the_bound_of_the_tail_it_says_what_meaning_does_not_find(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexed(workspace)
    (workspace / FOLDER / "index.json").unlink()
    monkeypatch.setattr("headrace.search.nearest.TAIL_MOST", 3)
    assert found(workspace, "bread").without_vector == 1


def test_it_is_indexed_while_a_service_has_the_workspace_and_by_one_at_a_time(workspace: Path) -> None:
    with SqliteStore.open(workspace):
        indexed(workspace)
        assert found(workspace, "bread").complete
        with SqliteStore.open_beside(workspace), pytest.raises(WorkspaceBusy):
            indexed(workspace)


class Failing(NullEmbedder):
    """Gives vectors for so many calls, then none; and none for some texts."""

    def __init__(self, good: float, poison: str = "no such text") -> None:
        super().__init__()
        self.good, self.poison = good, poison

    def embed(self, texts: Sequence[Tokens]) -> list[Vector]:
        self.good -= 1
        if self.good < 0 or any(self.poison in text.text for text in texts):
            raise EmbedderFailed("out of order")
        return super().embed(texts)


def test_a_receipt_that_cannot_be_embedded_costs_its_vector_only_and_is_tried_again(workspace: Path) -> None:
    progress = asyncio.run(update(workspace, Failing(math.inf, "Hotel")))
    assert (progress.embedded, progress.failed) == (3, 1)
    assert "out of order" in progress.failures[0]
    result = found(workspace, "nights")
    assert (result.without_vector, result.hits[0].merchant) == (1, HOTEL[0])
    assert asyncio.run(update(workspace, Failing(math.inf, "Hotel"))).failed == 1
    assert asyncio.run(update(workspace, NULL)).embedded == 1
    assert found(workspace, "nights").complete


def test_an_embedder_that_is_gone_ends_the_update_and_what_was_made_stays(tmp_path: Path) -> None:
    add_receipts(tmp_path, [(f"Shop {n}", *BREAD[1:]) for n in range(300)])
    with pytest.raises(EmbedderFailed, match="the next update goes on here"):
        asyncio.run(update(tmp_path, Failing(3)))
    with SqliteStore.read(tmp_path) as store:
        made = store.search_counts(NULL.name, 1).embedded
    assert 0 < made < 300
    assert asyncio.run(update(tmp_path, NULL)).embedded == 300 - made
    assert found(tmp_path, "shop").complete


def test_where_there_is_no_workspace_none_is_made(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceMissing):
        indexed(tmp_path)
    assert list(tmp_path.iterdir()) == []
