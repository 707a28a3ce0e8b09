"""Pages that do not stand upright and have no EXIF that says so."""

from pathlib import Path

import numpy as np
import pytest
from drawn_pages import draw_receipt, encoded, exif_with_orientation, stored_with_orientation
from drawn_sales import drawn_sale, fields_of, told
from PIL import Image

from headrace.ocr.engine import Engine, PageImage
from headrace.ocr.read import read_document
from headrace.ocr.upright import find_turn, turned

TICKET = ("CITY PARKING", "BAY 14 LEVEL 2", "DATE 04/03/2025", "ENTRY 10:42 EXIT 12:05", "TOTAL 7.75", "DRIVE SAFELY")


def image_of(page: Image.Image) -> PageImage:
    pixels = np.asarray(page)
    return PageImage(1, pixels, page.width, page.height)


@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_a_turned_receipt_has_the_fields_and_the_geometry_of_the_upright_one(
    tmp_path: Path, rapidocr_engine: Engine, degrees: int
) -> None:
    _, receipt = drawn_sale("restaurant", 3)
    upright, stored = tmp_path / "upright.png", tmp_path / "turned.png"
    receipt.save(upright)
    receipt.rotate(degrees, expand=True).save(stored)  # against the clock: as many degrees bring it back
    as_it_is, fields = fields_of(upright, rapidocr_engine)
    text, same = fields_of(stored, rapidocr_engine)
    assert same == fields
    assert text.pages == as_it_is.pages
    reading = text.views[0].reading("rapidocr", text.pages[0].source)
    assert reading.rotation_applied == degrees
    assert reading.rotation_reason == f"content stood turned by {360 - degrees} degrees"


@pytest.mark.parametrize("degrees", [0, 90, 180, 270])
@pytest.mark.parametrize("lines", [TICKET, ("TICKET 12", "EUR 7.75")], ids=["six-lines", "a-few-letters"])
def test_a_ticket_with_little_on_it_is_turned_upright(
    rapidocr_engine: Engine, lines: tuple[str, ...], degrees: int
) -> None:
    page = draw_receipt(lines).rotate(degrees, expand=True)
    assert find_turn(image_of(page), rapidocr_engine) == degrees


def test_a_page_is_turned_before_tesseract_sees_it(tmp_path: Path, tesseract_engine: Engine) -> None:
    path = tmp_path / "ticket.png"
    draw_receipt(TICKET).rotate(180).save(path)
    page = read_document(str(path), tesseract_engine).pages[0]
    assert [line.text for line in page.lines] == list(TICKET)


@pytest.mark.parametrize("layout", ["slip", "supermarket", "restaurant", "hotel", "taxi", "fuel"])
def test_an_upright_page_is_never_turned(rapidocr_engine: Engine, layout: str) -> None:
    _, receipt = drawn_sale(layout, 4)
    assert find_turn(image_of(receipt), rapidocr_engine) == 0


def test_a_page_on_which_nothing_can_be_read_stays_as_it_is(rapidocr_engine: Engine) -> None:
    grain = np.random.default_rng(3).integers(0, 255, (600, 400)).astype(np.uint8)
    blank = np.full((600, 400), 250, np.uint8)
    for pixels in (grain, blank, blank[:9, :9]):
        assert find_turn(PageImage(1, pixels, *pixels.shape[::-1]), rapidocr_engine) == 0


def test_what_is_on_the_page_corrects_an_exif_orientation_that_lies(tmp_path: Path, rapidocr_engine: Engine) -> None:
    sale, receipt = drawn_sale("slip", 2)
    path = tmp_path / "photo.jpg"
    path.write_bytes(encoded(receipt, "JPEG", quality=95, exif=exif_with_orientation(3)))
    text, fields = fields_of(path, rapidocr_engine)
    assert fields.payable_amount.value == sale.total
    reading = text.views[0].reading("rapidocr", text.pages[0].source)
    assert reading.rotation_applied == 0
    assert reading.rotation_reason == "EXIF orientation 3, content stood turned by 180 degrees"


def test_all_eight_exif_orientations_tell_the_same_and_are_recorded(tmp_path: Path, rapidocr_engine: Engine) -> None:
    _, receipt = drawn_sale("slip", 2)
    seen, turns = [], []
    for value in range(1, 9):
        path = tmp_path / f"{value}.png"
        path.write_bytes(encoded(stored_with_orientation(receipt, value), "PNG", exif=exif_with_orientation(value)))
        text, fields = fields_of(path, rapidocr_engine)
        seen.append((told(fields), text.pages))
        turns.append(text.views[0].reading("rapidocr", text.pages[0].source).rotation_applied)
    assert all(each == seen[0] for each in seen)
    assert turns == [0, 0, 180, 180, 270, 90, 90, 270]


def test_turning_four_quarters_is_the_page_again() -> None:
    page = image_of(draw_receipt(TICKET, width=400))
    for degrees in (0, 90, 180, 270):
        back = turned(turned(page, degrees), (360 - degrees) % 360)
        assert np.array_equal(back.pixels, page.pixels)
        assert (back.width_px, back.height_px) == (page.width_px, page.height_px)
