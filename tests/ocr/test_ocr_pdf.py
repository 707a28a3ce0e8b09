import io

import fpdf
import numpy as np
import pytest
from drawn_pages import LINES, draw_receipt
from drawn_pdfs import bomb_pdf, rotated, scan_pdf, text_pdf
from opened_pages import ink, read_pages

from headrace.documents.errors import CorruptDocument, EncryptedDocument, ImageTooLarge, TooManyPages
from headrace.documents.text import Box, PageText, TextSource
from headrace.ocr import media
from headrace.ocr.engine import Engine, PageImage
from headrace.ocr.limits import WORKING_SHORT_SIDE_PX, ReadLimits
from headrace.ocr.pages import open_pages
from headrace.ocr.pdf import render_scale
from headrace.ocr.pdf_text import _printable


def one_page(content: bytes, limits: ReadLimits | None = None):
    (page,) = read_pages(content, limits)
    if isinstance(page, Exception):
        raise page
    return page


def test_a_text_layer_is_read_as_lines_without_recognition() -> None:
    page = one_page(text_pdf())
    assert isinstance(page, PageText)
    assert page.source is TextSource.TEXT_LAYER
    assert tuple(line.text for line in page.lines) == LINES
    assert all(line.confidence == 1.0 for line in page.lines)
    assert (page.width_px, page.height_px) == (300, 400)


def test_a_text_layer_says_where_its_words_stand() -> None:
    page = one_page(text_pdf())
    total = next(line for line in page.lines if line.text.startswith("TOTAL"))
    words, amount = total.boxes
    assert words.left == pytest.approx(20 / 300, abs=0.01)
    assert amount.left == pytest.approx(240 / 300, abs=0.01)
    assert words.top < (40 + 24 * 5) / 400 < words.bottom + 0.02


@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_a_page_that_is_turned_and_shown_upright_again_reads_the_same(degrees: int) -> None:
    """The content is drawn turned, and /Rotate turns it back: what scanners with an OCR layer write."""
    pdf = fpdf.FPDF(unit="pt", format=(300, 400))
    pdf.set_auto_page_break(False)
    pdf.add_page()
    pdf.set_font("Helvetica", size=12)
    with pdf.rotation(degrees, 150, 150):
        for row, line in enumerate(LINES):
            pdf.text(30, 40 + 24 * row, line)
    page = one_page(rotated(bytes(pdf.output()), degrees))
    assert isinstance(page, PageText)
    assert tuple(line.text for line in page.lines) == LINES
    assert all(0 <= x <= 1 and 0 <= y <= 1 for line in page.lines for x, y in line.polygon)


def test_a_rotated_page_has_the_size_it_is_shown_with() -> None:
    page = one_page(text_pdf(rotate=90))
    assert (page.width_px, page.height_px) == (400, 300)


def test_a_scan_is_rendered_in_gray_with_smooth_edges() -> None:
    receipt = draw_receipt()
    page = one_page(scan_pdf(receipt, size=(220, 220 * receipt.height / receipt.width)))
    assert isinstance(page, PageImage)
    assert page.pixels.ndim == 2
    assert page.width_px == pytest.approx(220 * 300 / 72, abs=2)
    shades = np.unique(page.pixels)
    assert len(shades) > 20
    shrunk = np.asarray(receipt.resize((page.pixels.shape[1], page.pixels.shape[0])))
    assert (ink(page.pixels) != ink(shrunk)).mean() < 0.01


def test_what_a_scanner_writes_in_the_margin_is_no_text_layer() -> None:
    assert isinstance(one_page(scan_pdf(draw_receipt(), text="Scanned with AnyScan 4.2 Free Edition")), PageImage)


def test_a_page_number_is_no_text_layer() -> None:
    assert isinstance(one_page(text_pdf(["Page 1 of 1"])), PageImage)


def test_a_bomb_inside_a_pdf_is_refused_before_it_is_decoded() -> None:
    with pytest.raises(ImageTooLarge, match="60000 x 60000 is 3,600,000,000 pixels"):
        one_page(bomb_pdf(60_000))
    assert isinstance(one_page(bomb_pdf(600)), PageImage)


def test_one_page_with_a_bomb_leaves_the_others_readable() -> None:
    bomb, second, third = read_pages(bomb_pdf(60_000, pages_after=2))
    assert isinstance(bomb, ImageTooLarge)
    assert bomb.page == 1
    for number, page in ((2, second), (3, third)):
        assert isinstance(page, PageText)
        assert (page.number, page.lines[0].text) == (number, "TOTAL AMOUNT PAID 7.75")


def test_an_enormous_page_is_rendered_no_larger_than_can_be_used() -> None:
    pdf = fpdf.FPDF(unit="pt", format=(14_000, 14_000))
    pdf.add_page()
    page = one_page(bytes(pdf.output()))
    assert isinstance(page, PageImage)
    assert min(page.pixels.shape) <= WORKING_SHORT_SIDE_PX + 1


@pytest.mark.parametrize(
    ("width_pt", "height_pt", "dpi"), [(595, 842, 200), (226, 800, 300), (14_400, 14_400, 12.5), (226, 14_400, 300)]
)
def test_pages_are_rendered_as_fine_as_their_print_needs(width_pt: float, height_pt: float, dpi: float) -> None:
    assert render_scale(width_pt, height_pt) * 72 == pytest.approx(dpi)


def test_a_pdf_that_needs_a_password_is_encrypted_not_broken() -> None:
    content = text_pdf(encryption={"owner_password": "o", "user_password": "u"})
    with pytest.raises(EncryptedDocument, match="password"):
        read_pages(content)


def test_a_pdf_with_an_owner_password_only_is_read() -> None:
    page = one_page(text_pdf(encryption={"owner_password": "o"}))
    assert isinstance(page, PageText)
    assert page.lines[0].text == LINES[0]


def test_a_pdf_without_its_trailer_is_corrupt() -> None:
    content = text_pdf()
    with pytest.raises(CorruptDocument, match="broken PDF"):
        read_pages(content[: content.rindex(b"trailer")])


def test_too_many_pages_are_refused() -> None:
    content = text_pdf(pages=4)
    assert len(read_pages(content, ReadLimits(max_pages=4))) == 4
    with pytest.raises(TooManyPages, match="4 pages, the limit is 3"):
        read_pages(content, ReadLimits(max_pages=3))


@pytest.mark.parametrize("font", ["Helvetica", "Courier"])
def test_thousands_parted_by_a_blank_are_one_piece_of_text(font: str) -> None:
    pdf = fpdf.FPDF(unit="pt", format=(400, 200))
    pdf.add_page()
    pdf.set_font(font, size=10)
    pdf.text(20, 40, "Nocleg ze sniadaniem")
    pdf.text(20, 60, "2 Parking")
    pdf.text(300, 60, "42,90")
    pdf.text(20, 80, "Suma PLN")
    pdf.text(300, 80, "1 205,10")
    page = one_page(bytes(pdf.output()))
    assert isinstance(page, PageText)
    assert [box.text for box in page.lines[1].boxes if box.text[0].isdigit()] == ["2", "42,90"]
    assert page.lines[2].boxes[-1].text == "1 205,10"


def test_control_characters_of_a_text_layer_are_blanks() -> None:
    box = Box("205,10\x1fPLN\x02", ((0.1, 0.1), (0.2, 0.1), (0.2, 0.2), (0.1, 0.2)), 1.0)
    assert _printable(box).text == "205,10 PLN"


@pytest.mark.parametrize("shade", [0, 140])
def test_e60_nine_point_print_without_a_text_layer_is_rendered_in_grays_and_read(
    shade: int, rapidocr_engine: Engine
) -> None:
    """Vector letters of nine points, black and gray: a raster of one bit breaks the first and loses the second."""
    pdf = fpdf.FPDF(unit="pt", format=(300, 400))
    pdf.add_page()
    pdf.set_font("Helvetica", size=9)
    pdf.set_text_color(shade)
    for row, line in enumerate(LINES):
        pdf.text(30, 40 + 18 * row, line)
    document = io.BytesIO(bytes(pdf.output()))
    with open_pages(document, media.require_media_type(document.getvalue()[: media.HEAD_BYTES]), ReadLimits()) as pages:
        page = pages.read(1, text_layer=False)
    assert isinstance(page, PageImage)
    assert len(np.unique(page.pixels)) > 16
    text = "".join(box.text for box in rapidocr_engine.recognise(page)).replace(" ", "")
    assert all(line.replace(" ", "") in text for line in LINES)
