import io
import struct
import zlib

import numpy as np
import pytest
from drawn_pages import LINES, PAPER_PX, draw_receipt, encoded, exif_with_orientation, stored_with_orientation
from opened_pages import assert_same_page, ink, read_image, read_pages
from PIL import Image, ImageFile

from headrace.documents.errors import CorruptDocument, DocumentError, ImageTooLarge
from headrace.ocr import media
from headrace.ocr.engine import TRUNCATED_IMAGE
from headrace.ocr.limits import WORKING_SHORT_SIDE_PX, ReadLimits


@pytest.mark.parametrize("kind", ["PNG", "BMP", "GIF", "TIFF"])
def test_lossless_formats_give_the_page_as_it_was(kind: str) -> None:
    receipt = draw_receipt()
    assert_same_page(read_image(encoded(receipt, kind)), receipt, share=0)


@pytest.mark.parametrize("kind", ["JPEG", "WEBP", "AVIF"])
def test_lossy_formats_give_the_same_ink(kind: str) -> None:
    receipt = draw_receipt()
    assert_same_page(read_image(encoded(receipt.convert("RGB"), kind, quality=90)), receipt, share=0.005)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF"])
def test_all_eight_orientations_give_the_same_upright_page(kind: str, orientation: int) -> None:
    receipt = draw_receipt()
    stored = stored_with_orientation(receipt, orientation)
    options = {"lossless": True} if kind == "WEBP" else {}
    page = read_image(encoded(stored, kind, exif=exif_with_orientation(orientation), **options))
    assert (page.width_px, page.height_px) == receipt.size
    assert_same_page(page, receipt, share=0.005)
    assert page.warnings == ()


@pytest.mark.parametrize("orientation", [0, 9, 65535])
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF"])
def test_an_orientation_that_does_not_exist_counts_as_upright_with_a_warning(kind: str, orientation: int) -> None:
    receipt = draw_receipt()
    page = read_image(encoded(receipt, kind, exif=exif_with_orientation(orientation)))
    assert_same_page(page, receipt, share=0.005)
    assert any("orientation" in warning for warning in page.warnings)


@pytest.mark.parametrize("kept_bytes", [6, 8, 9, 14, 20])
def test_a_truncated_exif_block_is_no_reason_to_lose_a_page(kept_bytes: int) -> None:
    receipt = draw_receipt()
    block = exif_with_orientation(6).tobytes()
    page = read_image(encoded(receipt, "JPEG", exif=block[:kept_bytes]))
    assert_same_page(page, receipt, share=0.005)


def test_heic_is_read_and_its_container_alone_says_what_is_up() -> None:
    pillow_heif = pytest.importorskip("pillow_heif")
    receipt = draw_receipt()
    out = io.BytesIO()
    heif = pillow_heif.from_pillow(receipt.convert("RGB"))
    heif.save(out, quality=90, exif=exif_with_orientation(6).tobytes())
    assert media.media_type(out.getvalue()[: media.HEAD_BYTES]) == media.HEIC
    page = read_image(out.getvalue())
    assert {page.width_px, page.height_px} == set(receipt.size)
    assert page.warnings == ()


def test_a_truncated_heic_is_corrupt() -> None:
    pillow_heif = pytest.importorskip("pillow_heif")
    out = io.BytesIO()
    pillow_heif.from_pillow(draw_receipt().convert("RGB")).save(out, quality=90)
    with pytest.raises(CorruptDocument):
        read_image(out.getvalue()[: len(out.getvalue()) // 2])


def test_ink_that_is_only_in_the_alpha_channel_stands_on_white_paper() -> None:
    receipt = draw_receipt()
    black = Image.new("L", receipt.size, 0)
    ink_in_alpha = Image.merge("LA", (black, receipt.point(lambda v: 255 - v)))
    for image in (ink_in_alpha, ink_in_alpha.convert("RGBA")):
        assert_same_page(read_image(encoded(image, "PNG")), receipt)


def test_a_palette_with_a_transparent_colour_stands_on_white_paper() -> None:
    receipt = draw_receipt().point(lambda v: 255 if v > 127 else 0).convert("P")
    assert_same_page(read_image(encoded(receipt, "PNG", transparency=255)), receipt.convert("L"))
    assert_same_page(read_image(encoded(receipt, "GIF", transparency=255)), receipt.convert("L"))


def test_cmyk_and_one_bit_pages_keep_dark_on_light() -> None:
    receipt = draw_receipt()
    assert_same_page(read_image(encoded(receipt.convert("CMYK"), "JPEG", quality=95)), receipt, share=0.01)
    one_bit = receipt.point(lambda v: 255 if v > 127 else 0).convert("1")
    assert_same_page(read_image(encoded(one_bit, "PNG")), receipt, share=0.01)
    assert_same_page(read_image(encoded(one_bit, "TIFF", compression="group4")), receipt, share=0.01)


@pytest.mark.parametrize("bits", [8, 12, 16])
def test_sixteen_bit_pages_are_not_clipped_to_white(bits: int) -> None:
    receipt = draw_receipt()
    values = (np.asarray(receipt).astype(np.uint32) * ((1 << bits) - 1) // 255).astype(np.uint16)
    for kind in ("PNG", "TIFF"):
        assert_same_page(read_image(encoded(Image.fromarray(values), kind)), receipt)


def test_floating_point_pages_are_scaled_to_their_range() -> None:
    receipt = draw_receipt()
    page = read_image(encoded(Image.fromarray(np.asarray(receipt).astype(np.float32) / 255), "TIFF"))
    assert_same_page(page, receipt)


def test_a_truncated_jpeg_gives_what_there_is_and_says_so() -> None:
    receipt = draw_receipt()
    for progressive in (False, True):
        whole = encoded(receipt, "JPEG", quality=90, progressive=progressive)
        page = read_image(whole[: len(whole) * 6 // 10])
        assert TRUNCATED_IMAGE in page.warnings
        assert page.pixels.shape == (receipt.height, receipt.width)
        upper = receipt.height // 4
        assert (ink(page.pixels[:upper]) != ink(np.asarray(receipt)[:upper])).mean() < 0.02
        assert TRUNCATED_IMAGE not in read_image(whole).warnings


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF"])
def test_every_truncation_ends_in_a_page_or_a_typed_error(kind: str) -> None:
    whole = encoded(draw_receipt(width=260, letter_px=16).convert("RGB"), kind)
    ends: set[str] = set()
    for size in range(20, len(whole), max(1, len(whole) // 60)):
        try:
            read_image(whole[:size])
            ends.add("page")
        except DocumentError as error:
            ends.add(error.code)
    assert "corrupt-document" in ends
    assert ends <= {"page", "corrupt-document", "unsupported-media-type"}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF"])
def test_flipped_bytes_never_raise_anything_but_a_typed_error(kind: str) -> None:
    whole = encoded(draw_receipt(width=200, letter_px=14).convert("RGB"), kind)
    random = np.random.default_rng(5)
    for _ in range(60):
        broken = bytearray(whole)
        for place in random.integers(0, len(whole), 4):
            broken[place] = random.integers(0, 256)
        try:
            read_pages(bytes(broken), ReadLimits(max_pixels=1_000_000))
        except DocumentError:
            continue


def one_bit_png(width: int, height: int, *, rows: int | None = None) -> bytes:
    """A blank PNG of any size, made row by row: a few kilobytes for a billion pixels; `rows` of them are there."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    row = b"\0" + b"\xff" * ((width + 7) // 8)
    squeeze = zlib.compressobj(9)
    body = b"".join(squeeze.compress(row) for _ in range(height if rows is None else rows)) + squeeze.flush()
    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def test_a_bomb_is_refused_by_its_header_with_limit_and_size() -> None:
    bomb = one_bit_png(30_000, 30_000)
    assert len(bomb) < 200_000
    with pytest.raises(ImageTooLarge, match=r"900,000,000 pixels, the limit is 120,000,000"):
        read_image(bomb)


def test_a_header_alone_is_enough_to_refuse_a_bomb() -> None:
    with pytest.raises(ImageTooLarge):
        read_image(one_bit_png(30_000, 30_000, rows=1))


def test_an_honest_scan_of_a_hundred_megapixels_passes_reduced() -> None:
    scan = encoded(Image.new("L", (12_000, 9_000), 255), "JPEG")
    page = read_image(scan)
    assert (page.width_px, page.height_px) == (12_000, 9_000)
    assert min(page.pixels.shape[:2]) <= 1.5 * WORKING_SHORT_SIDE_PX
    assert page.pixels.shape[1] / page.pixels.shape[0] == pytest.approx(12 / 9, rel=0.01)


def test_a_page_too_large_for_colour_is_read_in_gray() -> None:
    slip = draw_receipt(LINES * 40, width=1080, letter_px=60).convert("RGB")
    assert slip.width * slip.height > 16_000_000
    for kind in ("JPEG", "PNG"):
        page = read_image(encoded(slip, kind))
        assert page.pixels.ndim == 2
        assert_same_page(page, slip, share=0.005)


def test_the_memory_limit_counts_what_decoding_needs_not_what_the_file_has() -> None:
    colour = encoded(Image.new("RGB", (2_000, 2_000), "white"), "PNG")
    with pytest.raises(ImageTooLarge, match="needs about 16,000,000 bytes"):
        read_image(colour, ReadLimits(max_bytes=15_000_000))
    gray = encoded(Image.new("L", (2_000, 2_000), 255), "PNG")
    assert read_image(gray, ReadLimits(max_bytes=15_000_000)).width_px == 2_000


def test_the_limit_is_ours_and_no_setting_of_the_host_program_is_touched_or_obeyed(monkeypatch) -> None:
    receipt = draw_receipt()
    contents = [encoded(receipt, kind) for kind in ("PNG", "JPEG", "TIFF", "BMP")]
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1_000)
    for content in contents:
        assert read_image(content).width_px == PAPER_PX
    assert Image.MAX_IMAGE_PIXELS == 1_000
    assert ImageFile.LOAD_TRUNCATED_IMAGES is False


def test_an_animation_is_its_first_frame() -> None:
    first = draw_receipt(width=300, letter_px=16)
    rest = [Image.new("L", first.size, shade) for shade in (0, 90)]
    for kind, options in (("GIF", {}), ("WEBP", {"lossless": True}), ("PNG", {})):
        animation = encoded(first, kind, save_all=True, append_images=rest, duration=50, **options)
        assert_same_page(read_image(animation), first)
