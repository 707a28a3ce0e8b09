"""Another picture of the same paper: proposed with what agrees, never decided, never by text that is merely alike."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from headrace.documents.entry import FirstSeen, Head
from headrace.documents.status import EntryKind, Verdict
from headrace.ledger import BookWriter, Draft, Policy
from headrace.ledger.duplicates import likeness

TODAY = dt.date(2026, 3, 4)
COFFEE = {"merchant": "Caffè Roma", "total": "2.50", "date": "2026-03-03", "number": "4711", "time": "08:15:00"}


def value(text: str | None) -> dict[str, Any]:
    return {"value": text, "status": "ok" if text else "missing", "confidence": 0.9, "source": "ocr"}


def receipt(**told: str | None) -> dict[str, Any]:
    of = COFFEE | told
    return {
        "merchant": {"name": value(of["merchant"])}, "payable_amount": value(of["total"]),
        "issue_date": value(of["date"]),
        "receipt_number": value(of["number"]), "issue_time": value(of["time"]), "currency": value("EUR"),
    }  # fmt: skip


@pytest.fixture
def photo(draft: Callable[..., Draft]) -> Callable[..., Draft]:
    def make(position: int, **told: str | None) -> Draft:
        return replace(draft(position), receipt=receipt(**told))

    return make


def decide(drafts: list[Draft], seen: dict[str, FirstSeen] | None = None) -> list[Any]:
    return BookWriter("main", Head("main"), Policy(), TODAY).decide(drafts, seen or {})


def test_a_second_photograph_stays_a_receipt_and_points_to_the_first_with_what_agrees(photo: Any) -> None:
    first, second = decide([photo(1), photo(2, merchant="CAFFÈ  ROMA.", total="2.5")])
    assert (first.duplicate_of, first.verdict) == (None, Verdict.ACCEPTED)
    assert (second.kind, second.verdict) == (EntryKind.RECEIPT, Verdict.NEEDS_REVIEW)
    assert second.receipt is not None
    link = second.duplicate_of
    assert (link["kind"], link["sequence"], link["document_id"], link["uri"]) == (
        "same_content", 1, first.document_id, "1.jpg",
    )  # fmt: skip
    assert link["evidence"] == [
        "the same merchant CAFFÈ  ROMA.", "the same receipt number 4711", "the same total 2.5 EUR",
        "the same date 2026-03-03",
    ]  # fmt: skip
    assert "1.jpg" in second.review_reasons[-1]


@pytest.mark.parametrize(
    "other",
    [
        {"number": "4712"},
        {"total": "2.60"},
        {"date": "2026-03-02"},
        {"merchant": "Caffè Napoli"},
        {"number": None, "time": None},
    ],
)
def test_two_purchases_that_differ_in_one_thing_are_two(photo: Any, other: dict[str, str | None]) -> None:
    assert [e.duplicate_of for e in decide([photo(1), photo(2, **other)])] == [None, None]


def test_without_a_number_the_minute_tells_two_coffees_from_two_pictures(photo: Any) -> None:
    same = decide([photo(1, number=None), photo(2, number=None, time="08:15")])[1]
    assert "the same time 08:15" in same.duplicate_of["evidence"]
    assert decide([photo(1, number=None), photo(2, number=None, time="08:16:00")])[1].duplicate_of is None


def test_where_neither_number_nor_time_was_read_nothing_is_proposed(photo: Any) -> None:
    nothing = {"number": None, "time": None}
    assert [e.duplicate_of for e in decide([photo(1, **nothing), photo(2, **nothing)])] == [None, None]


def test_the_first_of_three_pictures_is_the_one_that_the_others_point_to(photo: Any) -> None:
    drafts = [photo(n) for n in (1, 2, 3)]
    assert [e.duplicate_of and e.duplicate_of["sequence"] for e in decide(drafts)] == [None, 1, 1]
    known = {likeness(receipt()).digests[0]: FirstSeen("d9", 7, "old.jpg")}  # type: ignore[union-attr]
    assert [e.duplicate_of["sequence"] for e in decide(drafts, known)] == [7, 7, 7]


def with_picture(draft: Draft, picture: str | None, **told: str | None) -> Draft:
    reading = {"page": 1, "engine": "rapidocr", "picture_hash": picture}
    return replace(draft, receipt=receipt(**told) | {"processing": {"page_readings": [reading]}})


PICTURE = "00ff12ab34cd56ef"
UNNAMED = {"number": None, "time": None}


@pytest.mark.parametrize("copy", ["00ff12ab34cd56ef", "00fe12ab34cd56ee", "10ff12ab34cc46ef"])
def test_a_picture_that_was_saved_again_is_found_though_number_and_time_were_not_read(photo: Any, copy: str) -> None:
    first, second = decide([with_picture(photo(1), PICTURE, **UNNAMED), with_picture(photo(2), copy, **UNNAMED)])
    assert first.duplicate_of is None
    assert (second.kind, second.verdict) == (EntryKind.RECEIPT, Verdict.NEEDS_REVIEW)
    assert (second.duplicate_of["kind"], second.duplicate_of["sequence"]) == ("reencoded", 1)
    assert second.duplicate_of["evidence"] == [
        "the pictures look alike", "the same total 2.50 EUR", "the same date 2026-03-03",
    ]  # fmt: skip


@pytest.mark.parametrize("other", [{"total": "2.60"}, {"date": "2026-03-02"}, {"date": None}, {"total": None}])
def test_a_picture_alone_is_no_evidence(photo: Any, other: dict[str, str | None]) -> None:
    drafts = [with_picture(photo(1), PICTURE, **UNNAMED), with_picture(photo(2), PICTURE, **UNNAMED | other)]
    assert [e.duplicate_of for e in decide(drafts)] == [None, None]


def test_pictures_that_differ_in_every_part_are_two_purchases(photo: Any) -> None:
    drafts = [with_picture(photo(1), PICTURE, **UNNAMED), with_picture(photo(2), "10fe12aa34cc56ee", **UNNAMED)]
    assert [e.duplicate_of for e in decide(drafts)] == [None, None]


def test_the_same_purchase_is_surer_than_the_same_picture(photo: Any) -> None:
    drafts = [with_picture(photo(1), PICTURE), with_picture(photo(2), PICTURE)]
    assert decide(drafts)[1].duplicate_of["kind"] == "same_content"


def test_the_first_of_three_alike_pictures_is_the_one_that_is_named(photo: Any) -> None:
    pictures = [PICTURE, "00ff0000000056ef", "0000000012ab56ef"]
    drafts = [with_picture(photo(n), picture, **UNNAMED) for n, picture in enumerate(pictures, 1)]
    assert [e.duplicate_of and e.duplicate_of["sequence"] for e in decide(drafts)] == [None, 1, 1]


def test_the_same_bytes_are_a_duplicate_and_no_proposal(photo: Any) -> None:
    copy = replace(photo(2), sha256=photo(1).sha256)
    assert decide([photo(1), copy])[1].kind is EntryKind.DUPLICATE


def test_what_another_owner_has_is_neither_a_duplicate_nor_a_proposal(photo: Any) -> None:
    drafts = [replace(photo(n), owner=owner) for n, owner in ((1, "acme"), (2, "other"), (3, "acme"))]
    drafts.append(replace(photo(4), owner="other", sha256=drafts[0].sha256))
    drafts.append(replace(photo(5), owner="other", sha256=drafts[1].sha256))
    entries = decide(drafts)
    assert [e.duplicate_of and e.duplicate_of["sequence"] for e in entries] == [None, None, 1, 2, 2]
    assert [e.kind is EntryKind.DUPLICATE for e in entries] == [False, False, False, False, True]


def test_a_rerun_makes_the_same_proposals_however_the_groups_are_cut(photo: Any) -> None:
    drafts = [photo(1), photo(2, number="1"), photo(3), photo(4, number="1")]
    whole = decide(drafts)
    writer, seen, cut = BookWriter("main", Head("main"), Policy(), TODAY), {}, []
    for draft in drafts:
        (entry,) = writer.decide([draft], seen)
        writer.committed([entry])
        seen |= dict.fromkeys(entry.known_by[1:], FirstSeen(entry.document_id, entry.sequence, entry.uri))
        cut.append(entry)
    assert [e.entry_hash for e in whole] == [e.entry_hash for e in cut]


def test_an_amount_that_is_none_names_no_purchase() -> None:
    assert likeness(receipt(total="twelve")) is None
    assert likeness(receipt(merchant="***")) is None
