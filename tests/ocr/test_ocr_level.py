import numpy as np
import pytest
from drawn_pages import LINES, draw_receipt
from PIL import Image

from headrace.documents.text import Box, group_lines
from headrace.ocr.engine import Engine, PageImage
from headrace.ocr.level import LEVEL_FROM_DEGREES, Levelled, tilt_of


def tilted(degrees: float) -> np.ndarray:
    page = draw_receipt([*LINES, "CASH 10.00", "CHANGE 2.25"], width=700)
    return np.asarray(page.rotate(degrees, Image.Resampling.BICUBIC, expand=True, fillcolor=255))


@pytest.mark.parametrize("degrees", [-10, -7, -3, 0, 3, 7, 10])
def test_the_tilt_of_rows_is_measured(degrees: int) -> None:
    assert tilt_of(tilted(degrees)) == pytest.approx(degrees, abs=0.75)


def test_a_page_that_tells_nothing_is_level() -> None:
    grain = np.random.default_rng(1).integers(0, 255, (500, 400)).astype(np.uint8)
    for page in (np.full((300, 200), 255, np.uint8), np.zeros((300, 200), np.uint8), grain, grain[:1, :1], grain[:2]):
        assert abs(tilt_of(page)) < LEVEL_FROM_DEGREES


def test_a_level_page_is_shared_and_a_levelled_one_knows_the_way_back() -> None:
    page = tilted(0)
    box = Box("x", ((0.1, 0.1), (0.9, 0.1), (0.9, 0.2), (0.1, 0.2)), 0.9)
    assert Levelled(page, 1.0).pixels is page
    assert Levelled(page, 1.0).on_page(box) == box
    marked = np.full((900, 600), 255, np.uint8)
    marked[300:330, 200:240] = 0
    level = Levelled(marked, 7.0)
    ys, xs = np.nonzero(level.pixels < 100)
    height, width = level.pixels.shape
    corner = (float(xs.mean()) / width, float(ys.mean()) / height)
    back = level.on_page(Box("x", (corner,) * 4, 0.9)).polygon[0]
    assert back == pytest.approx((220 / 600, 315 / 900), abs=0.003)


@pytest.mark.parametrize("degrees", [-7, 7])
def test_tesseract_reads_a_tilted_page_in_rows_that_stand_where_they_are(
    tesseract_engine: Engine, degrees: int
) -> None:
    pixels = tilted(degrees)
    height, width = pixels.shape
    boxes = tesseract_engine.recognise(PageImage(1, pixels, width, height))
    lines = group_lines(boxes, aspect=width / height)
    assert [line.text for line in lines] == [*LINES, "CASH 10.00", "CHANGE 2.25"]
    total = next(line for line in lines if line.text.startswith("TOTAL"))
    left, right = total.boxes[0], total.boxes[-1]
    assert (left.top < right.top) == (degrees < 0), "rows of a page turned with the clock fall to the right"
