import io

import numpy as np
import pytest
from drawn_pages import LINES, draw_receipt, encoded
from opened_pages import assert_same_page, read_pages
from PIL import Image
from PIL.TiffImagePlugin import AppendingTiffWriter

from headrace.documents.errors import CorruptDocument, TooManyPages
from headrace.ocr.engine import PageImage
from headrace.ocr.limits import ReadLimits


def tiff_of(*frames: tuple[Image.Image, str]) -> bytes:
    """A TIFF whose pages have compressions of their own."""
    out = io.BytesIO()
    with AppendingTiffWriter(out, new=True) as writer:
        for image, compression in frames:
            image.save(writer, "TIFF", compression=compression)
            writer.newFrame()
    return out.getvalue()


def test_all_pages_of_a_tiff_come_in_order_whatever_their_compression_size_and_depth() -> None:
    fax = draw_receipt().point(lambda v: 255 if v > 127 else 0).convert("1")
    blank = Image.new("L", (300, 200), 255)
    photo = draw_receipt(LINES[:3], width=640)
    deep = draw_receipt(LINES[3:], width=400, letter_px=22)
    deep16 = Image.fromarray(np.asarray(deep).astype(np.uint16) * 257)
    content = tiff_of((fax, "group4"), (blank, "tiff_lzw"), (photo, "jpeg"), (deep16, "tiff_lzw"))
    first, second, third, fourth = read_pages(content)
    for page, expected, share in ((first, fax, 0), (second, blank, 0), (third, photo, 0.01), (fourth, deep, 0.001)):
        assert isinstance(page, PageImage)
        assert_same_page(page, expected, share=share)
    assert [page.number for page in (first, second, third, fourth)] == [1, 2, 3, 4]


def test_a_broken_page_of_a_tiff_costs_only_itself() -> None:
    pages = [draw_receipt(), draw_receipt(LINES[:2]), draw_receipt(LINES[2:])]
    content = bytearray(tiff_of(*((page, "tiff_adobe_deflate") for page in pages)))
    with Image.open(io.BytesIO(bytes(content))) as tiff:
        tiff.seek(1)
        strips = list(zip(tiff.tag_v2[273], tiff.tag_v2[279], strict=True))
    for offset, size in strips:
        content[offset : offset + size] = bytes(size)
    first, second, third = read_pages(bytes(content))
    assert_same_page(first, pages[0], share=0)
    assert isinstance(second, CorruptDocument)
    assert second.page == 2
    assert_same_page(third, pages[2], share=0)


def test_too_many_pages_are_refused_before_any_is_decoded() -> None:
    page = Image.new("1", (8, 8), 1)
    content = encoded(page, "TIFF", save_all=True, append_images=[page] * 10)
    assert len(read_pages(content, ReadLimits(max_pages=11))) == 11
    with pytest.raises(TooManyPages, match="10 pages"):
        read_pages(content, ReadLimits(max_pages=10))


@pytest.mark.timeout(30)
def test_directories_that_point_in_a_circle_end() -> None:
    content = bytearray(encoded(draw_receipt(LINES[:1]), "TIFF"))
    directory = int.from_bytes(content[4:8], "little")
    entries = int.from_bytes(content[directory : directory + 2], "little")
    next_at = directory + 2 + 12 * entries
    content[next_at : next_at + 4] = directory.to_bytes(4, "little")
    assert len(read_pages(bytes(content))) == 1


def test_a_fax_with_flat_pixels_is_made_square() -> None:
    receipt = draw_receipt().point(lambda v: 255 if v > 127 else 0).convert("1")
    squeezed = receipt.resize((receipt.width, receipt.height * 98 // 204))
    (page,) = read_pages(encoded(squeezed, "TIFF", compression="group4", dpi=(204, 98)))
    assert isinstance(page, PageImage)
    assert (page.width_px, page.height_px) == pytest.approx(receipt.size, abs=3)
    assert page.pixels.shape == (page.height_px, page.width_px)
    (same,) = read_pages(encoded(squeezed, "TIFF", compression="group4", dpi=(200, 196)))
    assert isinstance(same, PageImage)
    assert same.height_px == squeezed.height
