"""Documents that were reported in public against other readers; the table is in docs/known-failures.md."""

import io
import sys
from pathlib import Path

import numpy as np
import pytest
from drawn_pages import draw_receipt, encoded, exif_with_orientation, stored_with_orientation
from drawn_pdfs import text_pdf
from drawn_sales import TODAY, drawn_sale, fields_of, told
from opened_pages import assert_same_page, read_image
from PIL import Image
from PIL.TiffImagePlugin import AppendingTiffWriter

from headrace.documents.document import Document
from headrace.documents.errors import CorruptDocument, UnsupportedMediaType
from headrace.documents.status import DocumentState
from headrace.ingest.reading import ReadDocuments
from headrace.ocr import media
from headrace.ocr.engine import Engine


def heic(page: Image.Image, orientation: int = 1) -> bytes:
    """A HEIC as a telephone writes it: the turn stands in its container (`irot`) and, again, in its EXIF."""
    pillow_heif = pytest.importorskip("pillow_heif")
    out = io.BytesIO()
    exif = exif_with_orientation(orientation).tobytes()
    fast = {"preset": "ultrafast"}
    pillow_heif.from_pillow(page.convert("RGB")).save(out, quality=90, exif=exif, enc_params=fast)
    assert (b"irot" in out.getvalue()) == (orientation != 1)
    return out.getvalue()


def document(path: Path) -> Document:
    return Document(path.name, batch_id=1, position=1, uri=path.name, path=bytes(path))


@pytest.mark.timeout(120)
def test_a_slip_of_36000_rows_and_200_items_gives_its_total_at_the_bottom(
    tmp_path: Path, tesseract_engine: Engine
) -> None:
    rows = [f"ARTICLE {n:03d} {n % 9 + 1}.{n % 10}0" for n in range(1, 201)]
    slip = Image.new("L", (1080, 36_000), 255)
    for n, row in enumerate(["DATE 04/03/2025", *rows, "TOTAL 1099.90"]):
        line = draw_receipt([row], width=1080, letter_px=52)
        slip.paste(line.crop((0, 70, 1080, 158)), (0, 60 + n * 177))
    path = tmp_path / "slip.jpg"
    slip.save(path, quality=85)
    text, fields = fields_of(path, tesseract_engine)
    numbers = [
        int(word)
        for line in text.pages[0].lines
        for word in line.text.split()[1:2]
        if word.isdigit() and len(word) == 3
    ]
    assert sorted(set(numbers)) == sorted(numbers), "no line twice"
    assert len(numbers) >= 0.97 * len(rows), "and hardly one lost"
    assert str(fields.payable_amount.value) == "1099.90"
    assert fields.payable_amount.polygon is not None
    assert fields.payable_amount.polygon[0][1] > 0.98


def test_the_total_on_the_third_page_of_a_tiff_is_found_behind_a_blank_second(
    tmp_path: Path, rapidocr_engine: Engine
) -> None:
    fax = draw_receipt(("CORNER SHOP LTD", "12 MAIN STREET", "DATE 04/03/2025")).point(lambda v: 255 if v > 127 else 0)
    last = np.asarray(draw_receipt(("GREEN TEA 3.20", "DARK BREAD 4.55", "TOTAL 7.75"), width=640)).astype(np.uint16)
    pages = (
        (fax.convert("1"), "group4"),
        (Image.new("L", (300, 200), 255), "jpeg"),
        (Image.fromarray(last * 257), "tiff_lzw"),
    )
    path = tmp_path / "fax.tif"
    with AppendingTiffWriter(str(path), new=True) as writer:
        for page, compression in pages:
            page.save(writer, "TIFF", compression=compression)
            writer.newFrame()
    text, fields = fields_of(path, rapidocr_engine)
    assert (text.page_count, len(text.pages), text.page_failures) == (3, 3, ())
    assert str(fields.payable_amount.value) == "7.75"
    assert fields.payable_amount.page == 3
    assert fields.issue_date.page == 1


@pytest.mark.parametrize("orientation", [1, 3, 6, 8])
def test_a_heic_that_says_its_turn_twice_is_turned_once(orientation: int) -> None:
    receipt = draw_receipt()
    page = read_image(heic(stored_with_orientation(receipt, orientation), orientation))
    assert_same_page(page, receipt, share=0.02)
    assert (page.width_px, page.height_px, page.warnings) == (*receipt.size, ())


def test_a_heic_of_twelve_megapixels_that_calls_itself_jpeg_is_read(tmp_path: Path, rapidocr_engine: Engine) -> None:
    sale, receipt = drawn_sale("slip", 3)
    photo = Image.new("L", (3024, 4032), 200)
    paper = receipt.resize((receipt.width * 3, receipt.height * 3))
    photo.paste(paper.crop((0, 0, min(paper.width, 2800), min(paper.height, 3900))), (100, 60))
    path = tmp_path / "IMG_0042.jpg"
    path.write_bytes(heic(photo))
    text, fields = fields_of(path, rapidocr_engine)
    assert text.media_type == media.HEIC
    assert (fields.payable_amount.value, fields.issue_date.value) == (sale.total, sale.date)


def test_a_heic_cut_in_half_is_corrupt_and_a_missing_codec_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = heic(draw_receipt())
    with pytest.raises(CorruptDocument):
        read_image(content[: len(content) // 2])
    monkeypatch.setitem(sys.modules, "pillow_heif.as_plugin", None)
    with pytest.raises(UnsupportedMediaType, match="pip install pillow-heif"):
        read_image(content)


def test_files_without_a_receipt_in_them_cost_only_themselves(tmp_path: Path) -> None:
    """A worker goes on after an encrypted PDF and every kind of half file, and says of each what is wrong."""
    whole = encoded(draw_receipt(), "JPEG")
    pdf = text_pdf()
    files = {
        "zero.jpg": b"",
        "locked.pdf": text_pdf(encryption={"owner_password": "o", "user_password": "u"}),
        "owner.pdf": text_pdf(encryption={"owner_password": "o"}),
        "cut.jpg": whole[: len(whole) * 6 // 10],
        "no-trailer.pdf": pdf[: pdf.rindex(b"trailer")],
        "empty.zip": b"PK\x05\x06" + bytes(18),
        "good.pdf": pdf,
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder.pdf").mkdir()
    (tmp_path / "gone.pdf").symlink_to("nowhere.pdf")
    read = ReadDocuments("rapidocr", {}, 1 << 20, TODAY)()
    ends = {
        name: (reading.state, reading.failure.code if reading.failure else "")
        for name in [*files, "folder.pdf", "gone.pdf"]
        if (reading := read(document(tmp_path / name)))
    }
    failed, done = DocumentState.FAILED, DocumentState.SUCCEEDED
    assert ends == {
        "zero.jpg": (failed, "empty-file"),
        "locked.pdf": (failed, "encrypted-document"),
        "owner.pdf": (done, ""),
        "cut.jpg": (DocumentState.PARTIAL, ""),
        "no-trailer.pdf": (failed, "corrupt-document"),
        "empty.zip": (failed, "unsupported-media-type"),
        "good.pdf": (done, ""),
        "folder.pdf": (failed, "unreadable-source"),
        "gone.pdf": (failed, "unreadable-source"),
    }


def test_tilted_by_seven_degrees_a_receipt_has_its_rows_and_its_fields(tmp_path: Path, rapidocr_engine: Engine) -> None:
    sale, receipt = drawn_sale("restaurant", 4, seed=6)
    receipt.save(tmp_path / "level.png")
    _, level = fields_of(tmp_path / "level.png", rapidocr_engine)
    for degrees in (-7, 7):
        path = tmp_path / f"tilted{degrees}.png"
        receipt.rotate(degrees, Image.Resampling.BICUBIC, expand=True, fillcolor=252).save(path)
        _, fields = fields_of(path, rapidocr_engine)
        assert fields.payable_amount.value == sale.total
        assert [amount for _, amount in told(fields)["items"]] == [amount for _, amount in told(level)["items"]]
