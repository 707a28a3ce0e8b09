import random
from itertools import pairwise

import numpy as np
import pytest

from headrace.documents.text import Box
from headrace.ocr.bands import bands, cut, join, on_page
from headrace.ocr.engine import PageImage


def row(text: str, top: float, bottom: float, left: float = 0.1, right: float = 0.9) -> Box:
    return Box(text, ((left, top), (right, top), (right, bottom), (left, bottom)), 0.9)


@pytest.mark.parametrize(("width", "height"), [(1080, 1900), (2000, 2000), (800, 2400), (100, 3600), (3000, 100)])
def test_a_page_of_usual_shape_is_one_band(width: int, height: int) -> None:
    assert bands(width, height) == [(0, height)]


@pytest.mark.parametrize(("width", "height"), [(1080, 36_000), (300, 40_000), (1, 32_768), (2500, 70_000)])
def test_bands_cover_a_tall_page_overlap_and_stay_small(width: int, height: int) -> None:
    found = bands(width, height)
    assert found[0][0] == 0
    assert found[-1][1] == height
    for (_, above_ends), (below_begins, _) in pairwise(found):
        assert above_ends - below_begins >= 100
    assert max(bottom - top for top, bottom in found) <= max(1.6 * width, 1200) + 2


def test_cutting_a_page_copies_no_pixels() -> None:
    image = PageImage(1, np.zeros((9000, 1000), np.uint8), 1000, 9000)
    assert all(np.shares_memory(part.pixels, image.pixels) for _, part in cut(image))


def test_every_line_of_a_tall_page_is_found_once() -> None:
    """Against a plain model: lines on a page, an engine that sees whole lines and halves at the cut edges."""
    for seed in range(200):
        rng = random.Random(seed)
        height, lines, y = 9000, [], 0
        while (y := y + rng.randint(5, 60)) < 8900:
            tall = rng.randint(18, 60)
            lines.append((f"line {len(lines)}", y, y + tall))
            y += tall
        boxes: list[Box] = []
        above_ends = 0
        for top, bottom in bands(1000, height):
            seen = []
            for text, first, last in lines:
                begins, ends = max(first, top), min(last, bottom)
                if ends - begins > 6:  # the engine also sees what the cut left of a line, and misreads it
                    whole = (begins, ends) == (first, last)
                    shift = rng.uniform(-2, 2)
                    span = bottom - top
                    seen.append(
                        row(text if whole else "???", (begins - top + shift) / span, (ends - top + shift) / span)
                    )
            found = on_page(seen, (top, bottom), height)
            boxes = join(boxes, found, top / height, above_ends / height) if top else found
            above_ends = bottom
        assert sorted(box.text for box in boxes) == sorted(text for text, _, _ in lines), f"seed {seed}"


def test_a_line_that_no_seam_can_avoid_is_kept_once() -> None:
    above = [row("tilted line", 0.44, 0.56), row("stamp", 0.40, 0.60, left=0.92, right=0.99)]
    below = [row("tilted line", 0.4405, 0.5605), row("stamp", 0.401, 0.601, left=0.92, right=0.99)]
    kept = join(above, below, 0.42, 0.58)
    assert sorted(box.text for box in kept) == ["stamp", "tilted line"]
