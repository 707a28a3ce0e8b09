"""The drawn collection is the same for the same seed, true to the cent, and hostile where it says so."""

from __future__ import annotations

import hashlib
from collections import Counter
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from random import Random

import numpy as np
import pillow_heif
import pypdfium2
import pytest
from PIL import ExifTags, Image, ImageFile

from headrace.documents.money import round_money
from headrace.documents.status import EntryKind
from headrace.simulation.countries import COUNTRIES
from headrace.simulation.hostile import BOMB_SIDE_PX
from headrace.simulation.layouts import DRAW
from headrace.simulation.pdf import Lock, text_pdf
from headrace.simulation.purchase import LAYOUTS, buy
from headrace.simulation.receipts import draw_collection
from headrace.simulation.truth import Truth, read_truths


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Truth]]:
    folder = tmp_path_factory.mktemp("drawn") / "receipts"
    return folder, draw_collection(folder, 60, 7)


def _worn(collection: tuple[Path, list[Truth]], wear: str) -> tuple[Truth, bytes]:
    folder, truths = collection
    truth = next(t for t in truths if t.wear == wear)
    return truth, (folder / truth.file).read_bytes()


def _digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_the_same_seed_draws_the_same_bytes_and_another_seed_draws_others(tmp_path: Path) -> None:
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        draw_collection(tmp_path / name / "receipts", 10, seed)
    first, again, other = (_digests(tmp_path / name / "receipts") for name in "abc")
    assert first == again
    assert not set(first.values()) & set(other.values()) - {hashlib.sha256(b"").hexdigest()}


def test_names_sort_naturally_and_the_truth_is_not_among_them(collection: tuple[Path, list[Truth]]) -> None:
    folder, truths = collection
    assert [Path(t.file).stem for t in truths] == [f"receipt-{n}" for n in range(1, 61)]
    assert {path.name for path in folder.iterdir()} == {t.file for t in truths}
    assert list(read_truths(folder.parent / "truth.jsonl")) == truths


def test_nothing_is_drawn_over_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep me")
    with pytest.raises(FileExistsError, match="not empty"):
        draw_collection(tmp_path, 3)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_sixty_receipts_show_every_country_layout_and_hostile_file(collection: tuple[Path, list[Truth]]) -> None:
    _, truths = collection
    assert {t.country for t in truths} - {None} == {country.code for country in COUNTRIES}
    assert len({t.currency for t in truths} - {None}) >= 8
    assert {t.layout for t in truths} - {None} == set(LAYOUTS)
    assert {Path(t.file).suffix for t in truths} == {".jpg", ".png", ".webp", ".heic", ".tiff", ".pdf"}
    assert Counter(t.expected for t in truths) == {EntryKind.RECEIPT: 53, EntryKind.FAILURE: 6, EntryKind.DUPLICATE: 1}
    assert sorted(code for t in truths for code in t.codes) == [
        "corrupt-document",
        "corrupt-document",
        "empty-file",
        "encrypted-document",
        "image-too-large",
        "unsupported-media-type",
    ]


def test_no_two_receipts_of_a_collection_could_be_taken_for_each_other(collection: tuple[Path, list[Truth]]) -> None:
    _, truths = collection
    keys = Counter((t.merchant, t.issue_date, t.total) for t in truths if t.total and not t.duplicate_of)
    assert max(keys.values()) == 1


@pytest.mark.parametrize("country", COUNTRIES, ids=lambda country: country.code)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_sum_on_a_receipt_is_true(country, layout) -> None:  # type: ignore[no-untyped-def]
    for seed in range(20):
        sale = buy(layout, country, seed, Random(seed))
        for item in sale.items:
            assert item.amount == round_money(item.quantity * item.unit_price, country.currency)
        for row in sale.tax_rows:
            assert row.net + row.tax == row.gross
            assert abs(row.tax - row.net * row.rate / 100) <= Decimal("0.01" if country.currency != "JPY" else "1")
        extra = Decimal(0) if country.tax_included else sale.tax
        assert sale.gross == sale.subtotal + extra
        assert sale.total == sale.gross + sale.tip + sale.rounding
        if sale.tendered is not None:
            assert sale.tendered > sale.total
            assert not country.cash_step or sale.total % country.cash_step == 0


@pytest.mark.parametrize("country", COUNTRIES, ids=lambda country: country.code)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_truth_is_printed_on_the_paper(country, layout) -> None:  # type: ignore[no-untyped-def]
    sale = buy(layout, country, 17, Random(5))
    texts = [run.text for run in DRAW[layout](sale, Random(5)).runs]
    assert sale.merchant in texts
    assert country.price(sale.total) in texts
    assert any(country.day(sale.date) in text for text in texts)


def test_text_stays_on_the_paper() -> None:
    for layout in LAYOUTS:
        for country in COUNTRIES:
            paper = DRAW[layout](buy(layout, country, 1, Random(2)), Random(2))
            assert all(run.left >= 0 and run.left + run.width <= paper.width_px for run in paper.runs)
            assert all(run.top + run.size <= paper.height_px for run in paper.runs)


def test_the_exif_tag_makes_a_sideways_photo_upright_again(collection: tuple[Path, list[Truth]]) -> None:
    folder, truths = collection
    turned = [t for t in truths if t.wear == "phone photo sideways (EXIF) .jpg"]
    orientations = set()
    for truth in turned:
        with Image.open(folder / truth.file) as image:
            orientations.add(image.getexif()[ExifTags.Base.Orientation])
    assert orientations <= {3, 6, 8}
    assert orientations


def test_the_fax_has_an_empty_page_before_its_total(collection: tuple[Path, list[Truth]]) -> None:
    folder, truths = collection
    truth = next(t for t in truths if t.layout == "hotel" and t.file.endswith(".tiff"))
    with Image.open(folder / truth.file) as image:
        assert getattr(image, "n_frames", 1) == 3
        image.seek(1)
        assert image.getextrema() == (255, 255)


def test_the_text_layer_holds_the_total_and_an_owner_password_does_not_hide_it() -> None:
    sale = buy("hotel", COUNTRIES[2], 1, Random(1))
    paper = DRAW["hotel"](sale, Random(1))
    for data in (text_pdf(paper), text_pdf(paper, Lock(user="", owner="till-47"))):
        document = pypdfium2.PdfDocument(data)
        texts = [page.get_textpage().get_text_bounded() for page in document]
        assert len(texts) == 2
        assert sale.merchant in texts[0]
        assert COUNTRIES[2].price(sale.total) in texts[1]
        document.close()


def test_a_scan_has_no_text_layer(collection: tuple[Path, list[Truth]]) -> None:
    _, data = _worn(collection, "scan .pdf")
    document = pypdfium2.PdfDocument(data)
    assert document[0].get_textpage().get_text_bounded() == ""
    document.close()


def test_heic_is_real(collection: tuple[Path, list[Truth]]) -> None:
    _, data = _worn(collection, "phone photo .heic")
    assert pillow_heif.open_heif(BytesIO(data)).size[0] > 400


def test_the_encrypted_pdf_opens_with_its_password_only() -> None:
    paper = DRAW["slip"](buy("slip", COUNTRIES[0], 1, Random(1)), Random(1))
    data = text_pdf(paper, Lock(user="open sesame", owner="till-47"))
    with pytest.raises(pypdfium2.PdfiumError, match="password"):
        pypdfium2.PdfDocument(data)
    for password in ("open sesame", "till-47"):
        document = pypdfium2.PdfDocument(data, password=password)
        assert "Seri Melati" in document[0].get_textpage().get_text_bounded()
        document.close()


def test_the_encrypted_pdf_of_the_collection_asks_for_a_password(collection: tuple[Path, list[Truth]]) -> None:
    _, data = _worn(collection, "encrypted PDF")
    with pytest.raises(pypdfium2.PdfiumError, match="password"):
        pypdfium2.PdfDocument(data)


def test_the_pdf_without_trailer_is_refused(collection: tuple[Path, list[Truth]]) -> None:
    _, data = _worn(collection, "PDF without trailer")
    assert data.startswith(b"%PDF-")
    with pytest.raises(pypdfium2.PdfiumError):
        pypdfium2.PdfDocument(data)


def test_the_bomb_is_small_on_disk_and_refused_by_its_header(collection: tuple[Path, list[Truth]]) -> None:
    _, data = _worn(collection, "decompression bomb")
    assert len(data) < 200_000
    with pytest.raises(Image.DecompressionBombError):
        Image.open(BytesIO(data))
    assert int.from_bytes(data[16:20], "big") == int.from_bytes(data[20:24], "big") == BOMB_SIDE_PX


def test_the_jpeg_cut_at_5_percent_has_not_one_pixel(
    collection: tuple[Path, list[Truth]], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, data = _worn(collection, "JPEG cut at 5 %")
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    assert data.startswith(b"\xff\xd8\xff")
    with pytest.raises((OSError, SyntaxError)):
        Image.open(BytesIO(data)).load()


def test_the_jpeg_cut_at_60_percent_still_shows_its_head(
    collection: tuple[Path, list[Truth]], monkeypatch: pytest.MonkeyPatch
) -> None:
    truth, data = _worn(collection, "JPEG cut at 60 %")
    with pytest.raises(OSError, match="truncated"):
        Image.open(BytesIO(data)).load()
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    pixels = np.asarray(Image.open(BytesIO(data)).convert("L"))
    assert pixels[: len(pixels) // 3].std() > 20
    assert pixels[-len(pixels) // 8 :].std() < 5
    assert truth.merchant
    assert truth.total is None


def test_the_text_named_jpg_is_text(collection: tuple[Path, list[Truth]]) -> None:
    _, data = _worn(collection, "text named .jpg")
    assert data.decode().startswith("This is a note")


def test_the_duplicate_has_the_same_bytes_as_an_earlier_file(collection: tuple[Path, list[Truth]]) -> None:
    folder, truths = collection
    truth = next(t for t in truths if t.expected is EntryKind.DUPLICATE)
    names = [t.file for t in truths]
    assert truth.duplicate_of is not None
    assert names.index(truth.duplicate_of) < names.index(truth.file)
    assert (folder / truth.file).read_bytes() == (folder / truth.duplicate_of).read_bytes()


@pytest.mark.parametrize("count", [1, 2, 7, 9])
def test_small_collections_have_as_many_files_as_asked_for(tmp_path: Path, count: int) -> None:
    truths = draw_collection(tmp_path / "receipts", count, 1)
    assert len(truths) == len(list((tmp_path / "receipts").iterdir())) == count
    assert truths[0].expected is EntryKind.RECEIPT


def test_none_at_all_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="1 or more"):
        draw_collection(tmp_path, 0)


def test_a_line_that_is_no_truth_is_named(tmp_path: Path) -> None:
    (tmp_path / "truth.jsonl").write_text('{"file": "a.jpg"}\n')
    with pytest.raises(ValueError, match=r"truth\.jsonl:1"):
        list(read_truths(tmp_path / "truth.jsonl"))
