"""One suite over all engines: what a caller may rely on, whichever is chosen."""

from itertools import product

import numpy as np
import pytest
from drawn_pages import LINES, draw_receipt

from headrace.documents.text import group_lines
from headrace.ocr import text_detector
from headrace.ocr.engine import Effort, Engine, PageImage
from headrace.ocr.registry import ENGINE_NAMES, create_engine


def page_of(pixels: np.ndarray) -> PageImage:
    return PageImage(1, pixels, pixels.shape[1], pixels.shape[0])


def lines_of(engine: Engine, pixels: np.ndarray) -> list[str]:
    boxes = engine.recognise(page_of(pixels))
    return [line.text for line in group_lines(boxes, aspect=pixels.shape[1] / pixels.shape[0])]


def test_an_engine_says_who_it_is(engine: Engine) -> None:
    assert engine.name in ENGINE_NAMES
    assert all(isinstance(model, str) and model for model in engine.models)
    assert bool(engine.models) == engine.needs_pages


def test_boxes_lie_on_the_page_with_confidences_in_range(engine: Engine) -> None:
    for box in engine.recognise(page_of(np.asarray(draw_receipt()))):
        assert box.text == box.text.strip() != ""
        assert 0 <= box.confidence <= 1
        assert all(0 <= x <= 1 and 0 <= y <= 1 for x, y in box.polygon)
        assert box.left < box.right
        assert box.top < box.bottom
        assert all(isinstance(value, float) for point in box.polygon for value in point)


def test_the_same_page_gives_the_same_boxes_whatever_was_read_between(engine: Engine) -> None:
    page = page_of(np.asarray(draw_receipt()))
    first = engine.recognise(page)
    engine.recognise(page_of(np.asarray(draw_receipt(["SOMETHING ELSE 99.99"], width=700))))
    assert engine.recognise(page) == first


def test_gray_and_colour_pages_are_both_read(engine: Engine) -> None:
    gray = np.asarray(draw_receipt())
    colour = np.repeat(gray[:, :, None], 3, axis=2)
    assert lines_of(engine, gray) == lines_of(engine, colour)


@pytest.mark.parametrize("shape", [(1, 1), (1, 400), (400, 1), (3, 3), (33, 47), (5000, 7)])
def test_pages_of_any_shape_are_answered(engine: Engine, shape: tuple[int, int]) -> None:
    for shade, effort in product((0, 255), Effort):
        assert isinstance(engine.recognise(page_of(np.full(shape, shade, np.uint8)), effort), tuple)


def test_a_blank_page_has_no_text(engine: Engine) -> None:
    assert engine.recognise(page_of(np.full((900, 600), 255, np.uint8))) == ()


def test_a_page_that_may_not_be_written_is_only_read(engine: Engine) -> None:
    pixels = np.asarray(draw_receipt()).copy()
    before = pixels.copy()
    pixels.setflags(write=False)
    engine.recognise(page_of(pixels))
    assert np.array_equal(pixels, before)


def test_nothing_is_written_to_stdout(engine: Engine, capfd: pytest.CaptureFixture[str]) -> None:
    engine.recognise(page_of(np.asarray(draw_receipt())))
    engine.recognise(page_of(np.full((2, 2), 255, np.uint8)))
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("name", ENGINE_NAMES)
def test_closing_twice_is_allowed(name: str) -> None:
    if name == "tesseract":
        pytest.importorskip("tesserocr")
    engine = create_engine(name)
    engine.close()
    engine.close()
    if engine.needs_pages:
        with pytest.raises(RuntimeError, match="closed"):
            engine.recognise(page_of(np.zeros((9, 9), np.uint8)))


def test_rapidocr_reads_a_receipt(rapidocr_engine: Engine) -> None:
    assert lines_of(rapidocr_engine, np.asarray(draw_receipt())) == list(LINES)


def test_tesseract_reads_a_receipt(tesseract_engine: Engine) -> None:
    assert lines_of(tesseract_engine, np.asarray(draw_receipt())) == list(LINES)


@pytest.mark.parametrize("degrees", [-4, 4])
def test_rapidocr_reads_a_tilted_receipt_in_rows(rapidocr_engine: Engine, degrees: int) -> None:
    tilted = draw_receipt(width=700).rotate(degrees, expand=True, fillcolor=255)
    assert lines_of(rapidocr_engine, np.asarray(tilted)) == list(LINES)


def test_a_thorough_look_finds_print_that_a_usual_one_is_too_coarse_for(rapidocr_engine: Engine) -> None:
    rows = [f"ARTICLE {n:02d} {n}.50" for n in range(130)]
    page = page_of(np.asarray(draw_receipt(rows, width=1400, letter_px=9)))
    usual, thorough = (
        {word for box in rapidocr_engine.recognise(page, effort) for word in box.text.split()} for effort in Effort
    )
    wanted = {row.split()[-1] for row in rows}
    assert len(thorough & wanted) > len(usual & wanted)


def test_plain_rapidocr_reads_a_receipt(plain_rapidocr_engine: Engine) -> None:
    assert lines_of(plain_rapidocr_engine, np.asarray(draw_receipt())) == list(LINES)


def test_the_null_engine_reads_nothing_and_loads_no_library() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from headrace.ocr.registry import create_engine, available_engines, thread_environment;"
        "from headrace.ocr.read import read_document, digest_source; create_engine('null');"
        "print([m for m in ('numpy', 'PIL', 'cv2', 'onnxruntime', 'pypdfium2', 'tesserocr') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize("shape", [(32, 32), (1280, 512), (1280, 928), (1024, 1280), (1280, 32), (4000, 3008)])
def test_the_detector_sees_every_row_once_and_never_more_than_its_strip(shape: tuple[int, int]) -> None:
    """Memory is that of one strip with its margins, whatever the page; the row of a seam belongs to one side."""
    height, width = shape
    rows = list(text_detector._strips(height, width))
    assert [top for top, _ in rows] == [0, *(bottom for _, bottom in rows[:-1])]
    assert rows[-1][1] == height
    least = 2 * text_detector._STRIDE + 2 * text_detector._MARGIN_PX
    shown = max(bottom - top for top, bottom in rows) + (2 * text_detector._MARGIN_PX if len(rows) > 1 else 0)
    assert shown * width <= max(text_detector._STRIP_PX, least * width)


def test_a_page_read_in_strips_has_the_lines_of_a_page_read_whole(
    rapidocr_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = np.asarray(draw_receipt([f"ARTICLE {n:02d} {n}.50" for n in range(1, 40)], width=1000))
    in_strips = lines_of(rapidocr_engine, page)
    monkeypatch.setattr(text_detector, "_STRIP_PX", 10**9)
    assert in_strips == lines_of(rapidocr_engine, page)
    assert len(in_strips) == 39
