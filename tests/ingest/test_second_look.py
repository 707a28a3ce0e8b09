"""When a document is looked at again, which pages of it, and which of two readings is kept."""

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import pytest
from PIL import Image, ImageDraw

from headrace.documents.errors import EngineError
from headrace.documents.receipt import ReceiptFields
from headrace.documents.text import Box, Line, PageText, TextSource
from headrace.extraction import extract
from headrace.ingest.reading import read_fields
from headrace.ingest.second_look import CLEARLY_MORE, better, doubts, settled
from headrace.ocr.cascade import MOST_PAGES, PageView, legibility, second_looks
from headrace.ocr.engine import Effort, PageImage
from headrace.ocr.limits import ReadLimits
from headrace.ocr.read import DocumentText

TODAY = dt.date(2026, 12, 1)
GOOD = (
    "CORNER SHOP LTD",
    "12 MAIN STREET",
    "DATE 04/11/2026",
    "TEA 3.20",
    "BREAD 4.55",
    "TOTAL 7.75",
    "CASH 10.00",
    "CHANGE 2.25",
)


def page_of(
    rows: tuple[str, ...], *, number: int = 1, confidence: float = 0.99, source: TextSource = TextSource.OCR
) -> PageText:
    boxes = [box_of(row, n, len(rows), confidence) for n, row in enumerate(rows)]
    return PageText(number, 600, 1000, tuple(Line((box,)) for box in boxes), source)


def box_of(text: str, row: int, rows: int, confidence: float) -> Box:
    top, low = (row + 0.2) / rows, (row + 0.8) / rows
    return Box(text, ((0.1, top), (0.9, top), (0.9, low), (0.1, low)), confidence)


def fields_of(*rows: str, confidence: float = 0.99) -> tuple[ReceiptFields, list[PageText]]:
    pages = [page_of(rows, confidence=confidence)]
    return extract(pages, today=TODAY), pages


@pytest.mark.parametrize(
    ("rows", "confidence", "expected"),
    [
        (GOOD, 0.99, []),
        (GOOD, 0.7, []),  # a total that cash and change prove needs no second look, however weak its letters
        (GOOD[:6], 0.7, ["low score on the total's line"]),
        (GOOD[:2] + GOOD[3:], 0.99, ["no date"]),
        (GOOD[:3], 0.99, ["no total"]),
    ],
)
def test_what_does_not_add_up_is_named(rows: tuple[str, ...], confidence: float, expected: list[str]) -> None:
    if rows == GOOD[:6] and confidence < 0.9:
        rows = (*GOOD[:3], "TOTAL 7.75")  # nothing that proves it
    assert doubts(*fields_of(*rows, confidence=confidence)) == expected


def test_a_reading_that_settles_more_points_is_the_better_one_whatever_its_length() -> None:
    whole, torn = fields_of(*GOOD)[0], fields_of(*GOOD[:3])[0]
    assert settled(whole) > settled(torn)
    assert better(settled(torn), settled(whole), text_before=900, text_after=100)
    assert not better(settled(whole), settled(torn), text_before=100, text_after=900)


def test_between_equals_the_first_stands_unless_the_second_has_clearly_more_text() -> None:
    assert not better(4, 4, 100, 100)
    assert not better(4, 4, 100, 100 * CLEARLY_MORE)
    assert better(4, 4, 100, 100 * CLEARLY_MORE + 1)
    assert better(4, 4, 100, 101, poor=True)
    assert not better(4, 4, 100, 100, poor=True)


def test_only_pictures_in_doubt_are_chosen_poor_ones_first_and_no_more_than_four() -> None:
    pages = tuple(
        page_of(GOOD, number=n, source=TextSource.TEXT_LAYER if n == 2 else TextSource.OCR) for n in range(1, 9)
    )
    views = tuple(PageView(n, trouble="faint print" if n in (6, 7) else "") for n in range(1, 9))
    document = DocumentText("", 0, "image/tiff", 8, pages, views)
    assert list(second_looks(document, [])) == [6, 7]
    chosen = second_looks(document, ["no total", "no date"])
    assert list(chosen) == [1, 3, 6, 7]
    assert len(chosen) == MOST_PAGES
    assert [view.second for view in chosen.values()] == ["no total, no date"] * 2 + ["faint print"] * 2


@dataclass
class TwoLooks:
    """An engine that reads one text at the first look and another at a thorough one."""

    first: tuple[str, ...]
    thorough: tuple[str, ...] | Exception
    efforts: list[Effort] = field(default_factory=list)
    name: str = "scripted"
    models: tuple[str, ...] = ()
    needs_pages: bool = True
    look: Callable[[], None] = lambda: None

    def recognise(self, image: PageImage, effort: Effort = Effort.USUAL) -> tuple[Box, ...]:
        self.look()
        self.efforts.append(effort)
        rows = self.first if effort is Effort.USUAL else self.thorough
        if isinstance(rows, Exception):
            raise rows
        return tuple(box_of(row, n, len(rows), 0.99) for n, row in enumerate(rows))

    def close(self) -> None:
        pass


@pytest.fixture
def sharp(tmp_path: Path) -> Path:
    """A page with stripes for print, so that it is neither faint nor turned."""
    page = Image.new("L", (600, 1000), 255)
    pen = ImageDraw.Draw(page)
    for row in range(20, 980, 14):
        pen.line((20, row, 580, row), 0, 3)
    path = tmp_path / "page.png"
    page.save(path)
    return path


def usual_looks(engine: TwoLooks) -> int:
    return engine.efforts.count(Effort.USUAL)


def test_a_document_that_verifies_is_read_once(sharp: Path) -> None:
    engine = TwoLooks(GOOD, GOOD)
    text, fields = read_fields(str(sharp), engine, ReadLimits(), TODAY)
    assert Effort.THOROUGH not in engine.efforts
    assert fields.payable_amount.value == Decimal("7.75")
    assert text.views[0].second == ""


def test_a_document_without_a_total_is_read_once_more_and_the_better_reading_kept_with_its_reason(sharp: Path) -> None:
    engine = TwoLooks(GOOD[:3], GOOD)
    text, fields = read_fields(str(sharp), engine, ReadLimits(), TODAY)
    assert engine.efforts.count(Effort.THOROUGH) == 1
    assert fields.payable_amount.value == Decimal("7.75")
    reading = text.views[0].reading(engine.name, text.pages[0].source)
    assert (reading.variant, reading.effort, reading.reason) == ("flattened", "thorough", "no total")
    again = read_fields(str(sharp), TwoLooks(GOOD[:3], GOOD), ReadLimits(), TODAY)
    assert again == (text, fields), "the same on every rerun"


def test_a_second_reading_that_is_worse_or_fails_changes_nothing(sharp: Path) -> None:
    worse = TwoLooks(GOOD[:5], ("CORNER",))
    broken = TwoLooks(GOOD[:5], EngineError("engine broke", page=1))
    results = [read_fields(str(sharp), engine, ReadLimits(), TODAY) for engine in (worse, broken)]
    assert results[0] == results[1]
    assert results[0][0].views[0].second == ""
    assert not results[0][0].partial
    assert all(engine.efforts.count(Effort.THOROUGH) == 1 for engine in (worse, broken))


def test_there_is_no_second_look_when_half_of_the_documents_time_is_gone(
    sharp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [0.0]
    monkeypatch.setattr("headrace.ingest.reading.time.monotonic", lambda: now_s[0])

    def takes_a_while() -> None:
        now_s[0] += 4

    engine = TwoLooks(GOOD[:3], GOOD, look=takes_a_while)
    read_fields(str(sharp), engine, ReadLimits(document_timeout_s=7.0), TODAY)
    assert engine.efforts.count(Effort.THOROUGH) == 0


def test_legibility_counts_letters_by_the_trust_in_them() -> None:
    assert legibility([page_of(("ABC 12", "--"), confidence=1.0)]) == 5
    assert legibility([page_of(("ABC 12",), confidence=0.5)]) == pytest.approx(5 / 4)
