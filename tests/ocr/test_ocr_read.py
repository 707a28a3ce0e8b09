import hashlib
import os
import pickle
import re
from collections.abc import Callable

import pytest
from drawn_pages import LINES, draw_receipt, encoded, exif_with_orientation, stored_with_orientation
from drawn_pdfs import text_pdf
from PIL import Image

from headrace.documents.errors import (
    CorruptDocument,
    DocumentError,
    EmptyFile,
    EngineError,
    PageTimeout,
    UnreadableSource,
    UnsupportedMediaType,
)
from headrace.documents.text import Box, TextSource
from headrace.ocr.engine import TRUNCATED_IMAGE, Effort, Engine, PageImage
from headrace.ocr.limits import ReadLimits
from headrace.ocr.null import NullEngine
from headrace.ocr.read import DocumentText, digest_source, read_document


class VirtualClock:
    """Time that passes only when told to."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class ScriptedEngine:
    """An engine that does what the test says on each page (or band), and sees what it is given."""

    name = "scripted"
    models = ("none",)
    needs_pages = True

    def __init__(self, act: Callable[[PageImage], None] = lambda image: None) -> None:
        self.seen: list[tuple[int, tuple[int, ...]]] = []
        self._act = act

    def recognise(self, image: PageImage, effort: Effort = Effort.USUAL) -> tuple[Box, ...]:
        self.seen.append((image.number, image.pixels.shape))
        self._act(image)
        return (Box(f"page {image.number}", ((0.1, 0.4), (0.9, 0.4), (0.9, 0.5), (0.1, 0.5)), 0.9),)

    def close(self) -> None:
        pass


@pytest.fixture
def write(tmp_path) -> Callable[[bytes], str]:
    def written(content: bytes, name: str = "document") -> str:
        path = tmp_path / name
        path.write_bytes(content)
        return str(path)

    return written


def texts(document: DocumentText) -> list[str]:
    return [line.text for page in document.pages for line in page.lines]


def tiff(pages: int) -> bytes:
    first, *rest = (draw_receipt([f"PAGE {n}"]) for n in range(1, pages + 1))
    return encoded(first, "TIFF", save_all=True, append_images=rest)


def test_a_drawn_receipt_is_read_from_its_file(write, rapidocr_engine: Engine) -> None:
    content = encoded(draw_receipt(), "JPEG", quality=90)
    document = read_document(write(content, "not-a-picture.pdf"), rapidocr_engine)
    assert texts(document) == list(LINES)
    assert document.sha256 == hashlib.sha256(content).hexdigest()
    assert (document.size_bytes, document.media_type, document.page_count) == (len(content), "image/jpeg", 1)
    assert document.pages[0].source is TextSource.OCR
    assert not document.partial
    assert document.warnings == document.page_failures == ()
    assert set(document.durations_ms) == {"read", "decode", "recognise"}
    assert all(ms >= 0 for ms in document.durations_ms.values())


def test_all_eight_orientations_give_the_same_boxes(write, tesseract_engine: Engine) -> None:
    upright = draw_receipt()
    pages = []
    for value in range(1, 9):
        stored = stored_with_orientation(upright, value)
        content = encoded(stored, "PNG", exif=exif_with_orientation(value))
        pages.append(read_document(write(content), tesseract_engine).pages[0])
    assert [line.text for line in pages[0].lines] == list(LINES)
    assert all(page == pages[0] for page in pages)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("name", "rows"), [("rapidocr", 12_000), ("tesseract", 33_000)])
def test_a_slip_taller_than_the_engine_takes_is_read_to_its_last_line(
    write, name: str, rows: int, request: pytest.FixtureRequest
) -> None:
    """Tesseract refuses 32,768 rows; a detector shown 12,000 rows whole would see letters of a few pixels."""
    engine: Engine = request.getfixturevalue(f"{name}_engine")
    # Large, sparse print keeps the test short: what matters is the height and the seams.
    items = [f"ITEM {n:02d} {n}.25" for n in range(1, 1 + rows // 1_000)]
    slip = Image.new("L", (1080, rows), 255)
    for n, item in enumerate([*items, "TOTAL 536.00"]):
        line = draw_receipt([item], width=1080, letter_px=110)
        slip.paste(line.crop((0, 150, 1080, 400)), (0, round(n * (rows - 300) / len(items))))
    document = read_document(write(encoded(slip, "PNG")), engine)
    found = texts(document)
    assert document.pages[0].height_px == rows
    digits = [
        re.sub(r"\D", "", text.split()[-1]) for text in found
    ]  # Tesseract sees a comma for a point here and there
    assert digits == [f"{n}25" for n in range(1, 1 + rows // 1_000)] + ["53600"]


def test_a_tall_page_reaches_the_engine_in_bands_of_bounded_size(write) -> None:
    engine = ScriptedEngine()
    read_document(write(encoded(Image.new("L", (1080, 36_000), 255), "JPEG")), engine)
    assert len(engine.seen) > 20
    assert max(shape[0] for _, shape in engine.seen) < 1800


def test_a_text_layer_never_reaches_the_engine(write) -> None:
    engine = ScriptedEngine()
    document = read_document(write(text_pdf(pages=2)), engine)
    assert texts(document) == list(LINES) * 2
    assert engine.seen == []
    assert document.media_type == "application/pdf"


def test_pages_come_in_order_and_a_failed_one_is_named(write) -> None:
    def fail_on_two(image: PageImage) -> None:
        if image.number == 2:
            raise EngineError("engine broke", page=2)

    document = read_document(write(tiff(3)), ScriptedEngine(fail_on_two))
    assert [page.number for page in document.pages] == [1, 3]
    assert [(failure.page, failure.code) for failure in document.page_failures] == [(2, "engine-error")]
    assert document.page_count == 3
    assert document.partial


def test_when_no_page_can_be_read_the_document_fails_with_the_reason_of_the_first(write) -> None:
    def fail(image: PageImage) -> None:
        raise EngineError(f"engine broke on {image.number}", page=image.number)

    with pytest.raises(EngineError, match="broke on 1"):
        read_document(write(tiff(2)), ScriptedEngine(fail))


def test_every_page_is_told_when_it_is_done_whatever_became_of_it(write) -> None:
    def fail_on_two(image: PageImage) -> None:
        if image.number == 2:
            raise EngineError("no", page=2)

    told: list[tuple[int, int]] = []
    read_document(write(tiff(3)), ScriptedEngine(fail_on_two), on_page=lambda *news: told.append(news))
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_one_page_at_a_time_is_decoded(write) -> None:
    import gc
    import weakref

    alive: list[weakref.ref[PageImage]] = []

    class Remembering(ScriptedEngine):
        def recognise(self, image: PageImage, effort: Effort = Effort.USUAL) -> tuple[Box, ...]:
            gc.collect()
            assert sum(ref() is not None for ref in alive) <= 1  # at most the page before, still in its frame
            alive.append(weakref.ref(image.pixels))
            return super().recognise(image, effort)

    document = read_document(write(tiff(5)), Remembering())
    assert len(document.pages) == 5


def test_a_page_over_its_time_is_a_failure_of_that_page_and_the_others_are_kept(write) -> None:
    clock = VirtualClock()

    def slow_on_two(image: PageImage) -> None:
        clock.now_s += 20 if image.number == 2 else 0.1

    document = read_document(write(tiff(3)), ScriptedEngine(slow_on_two), ReadLimits(page_timeout_s=1), clock=clock)
    assert [page.number for page in document.pages] == [1, 3]
    (failure,) = document.page_failures
    assert (failure.page, failure.code) == (2, "page-timeout")
    assert document.partial
    assert document.observed == ("page 2 took 20.0 s, the limit is 1 s",)
    assert not set("0123456789") & set(failure.detail), "nothing measured goes into the ledger"


def test_a_tall_page_over_its_time_stops_at_the_next_band(write) -> None:
    clock = VirtualClock()

    def slow(image: PageImage) -> None:
        clock.now_s += 3

    engine = ScriptedEngine(slow)
    with pytest.raises(PageTimeout):
        read_document(
            write(encoded(Image.new("L", (1080, 36_000), 255), "PNG")),
            engine,
            ReadLimits(page_timeout_s=5),
            clock=clock,
        )
    assert len(engine.seen) == 2


def test_pages_the_document_has_no_time_for_are_failures_and_the_rest_is_kept(write) -> None:
    clock = VirtualClock()

    def slow(image: PageImage) -> None:
        clock.now_s += 4

    limits = ReadLimits(page_timeout_s=100, document_timeout_s=10)
    document = read_document(write(tiff(5)), ScriptedEngine(slow), limits, clock=clock)
    assert [page.number for page in document.pages] == [1, 2, 3]
    assert [(failure.page, failure.code) for failure in document.page_failures] == [
        (4, "page-timeout"),
        (5, "page-timeout"),
    ]
    assert document.durations_ms["recognise"] == pytest.approx(12_000)


def test_a_truncated_jpeg_is_partial_and_says_so(write) -> None:
    whole = encoded(draw_receipt(), "JPEG")
    document = read_document(write(whole[: len(whole) * 6 // 10]), ScriptedEngine())
    assert document.partial
    assert document.warnings == (f"page 1: {TRUNCATED_IMAGE}",)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", EmptyFile),
        (b"PK\x05\x06" + bytes(18), UnsupportedMediaType),
        (b"\x89PNG\r\n\x1a\n", CorruptDocument),
        (b"%PDF-1.7\nnothing more", CorruptDocument),
        (b"\xff\xd8\xff", CorruptDocument),
    ],
)
def test_what_cannot_be_read_fails_typed(write, content: bytes, error: type[DocumentError]) -> None:
    with pytest.raises(error):
        read_document(write(content), ScriptedEngine())


def test_the_null_engine_costs_no_decoding_but_the_hash_is_true(write) -> None:
    content = b"no picture at all" * 100_000
    document = read_document(write(content), NullEngine())
    assert document.sha256 == hashlib.sha256(content).hexdigest()
    assert document.size_bytes == len(content)
    assert (document.pages, document.page_count, document.partial) == ((), 0, False)
    with pytest.raises(EmptyFile):
        read_document(write(b""), NullEngine())


def test_names_that_are_not_text_are_read_like_any_other(tmp_path) -> None:
    path = os.path.join(os.fsencode(tmp_path), b"re\xe7u \x96\n.jpg")
    with open(path, "wb") as file:
        file.write(encoded(draw_receipt(), "JPEG"))
    assert read_document(path, ScriptedEngine()).page_count == 1
    assert digest_source(path) == digest_source(os.fsdecode(path))
    with pytest.raises(UnreadableSource) as caught:
        read_document(path + b"\xff", ScriptedEngine())
    caught.value.detail.encode()  # the detail never carries the undecodable name


def test_a_result_crosses_process_borders(write) -> None:
    document = read_document(write(tiff(2)), ScriptedEngine())
    assert pickle.loads(pickle.dumps(document)) == document


def test_reading_leaves_no_open_files(write) -> None:
    paths = [
        write(tiff(2), "a"),
        write(text_pdf(), "b"),
        write(b"%PDF-1.7\n", "c"),
        write(encoded(draw_receipt(), "GIF"), "d"),
    ]
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        for path in paths:
            try:
                read_document(path, ScriptedEngine())
            except CorruptDocument:
                continue
    assert len(os.listdir("/proc/self/fd")) == before
