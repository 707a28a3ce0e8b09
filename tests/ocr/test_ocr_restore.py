"""Faint print, shadows, coloured light and stains on receipts that headrace.simulation draws."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from drawn_pages import draw_receipt
from drawn_sales import drawn_sale, fields_of
from PIL import Image

from headrace.documents.text import Box
from headrace.ocr import restore
from headrace.ocr.engine import Engine


def grain(shape: tuple[int, ...], deviation: float = 2.0) -> np.ndarray:
    return np.random.default_rng(5).normal(0, deviation, shape)


def shades(values: np.ndarray) -> np.ndarray:
    return np.clip(values, 0, 255).astype(np.uint8)


def faint(page: np.ndarray, contrast: float) -> np.ndarray:
    return shades(235 - (252 - page.astype(float)) * contrast + grain(page.shape))


def half_in_shadow(page: np.ndarray, left: float = 0.35) -> np.ndarray:
    across = np.linspace(0, 1, page.shape[1])
    return shades(page * (1 - (1 - left) / (1 + np.exp(-14 * (across - 0.5)))))


def warm(page: np.ndarray) -> np.ndarray:
    return shades(page[:, :, None] * np.array([1.0, 0.82, 0.55]))


def stained(page: np.ndarray, rows: tuple[int, int]) -> np.ndarray:
    """A ring of coffee across these rows, all over the width."""
    y, x = np.mgrid[0 : page.shape[0], 0 : page.shape[1]].astype(float)
    middle, half = sum(rows) / 2, (rows[1] - rows[0]) / 2
    inside = np.exp(-(((y - middle) / (2 * half)) ** 4) - ((x / page.shape[1] - 0.7) / 0.5) ** 4)
    return shades(page * (1 - 0.45 * inside))


def contrast_of(page: np.ndarray) -> float:
    """How far apart print and paper are."""
    return float(np.subtract(*np.percentile(page, (95, 2))))


@pytest.mark.parametrize("damage", ["fifteen-percent", "half-in-shadow", "warm", "stain-on-the-total"])
def test_the_fields_of_a_damaged_receipt_are_those_of_the_clean_one(
    tmp_path: Path, rapidocr_engine: Engine, damage: str
) -> None:
    sale, image = drawn_sale("restaurant", 4, seed=6)
    page = np.asarray(image)
    if damage == "stain-on-the-total":
        page = stained(page, (page.shape[0] * 6 // 10, page.shape[0] * 8 // 10))
    else:
        page = faint(page, 0.15)
        page = {"half-in-shadow": half_in_shadow, "warm": warm}.get(damage, lambda same: same)(page)
    path = tmp_path / "receipt.png"
    Image.fromarray(page).save(path)
    text, fields = fields_of(path, rapidocr_engine)
    assert (fields.payable_amount.value, fields.issue_date.value) == (sale.total, sale.date)
    assert fields.merchant.name.value is not None
    reading = text.views[0].reading("rapidocr", text.pages[0].source)
    assert (reading.variant == "flattened") == (reading.reason is not None)


def test_text_that_came_from_a_restored_copy_says_so_and_stands_where_it_is_on_the_page(
    tmp_path: Path, rapidocr_engine: Engine
) -> None:
    _, image = drawn_sale("slip", 3, seed=2)
    clean, faded = tmp_path / "clean.png", tmp_path / "faded.png"
    image.save(clean)
    Image.fromarray(faint(np.asarray(image), 0.04)).save(faded)
    _, fields = fields_of(clean, rapidocr_engine)
    text, again = fields_of(faded, rapidocr_engine)
    reading = text.views[0].reading("rapidocr", text.pages[0].source)
    assert (reading.variant, reading.effort, reading.reason) == ("flattened", "thorough", "faint print")
    assert again.payable_amount.value == fields.payable_amount.value
    assert again.payable_amount.polygon is not None
    assert fields.payable_amount.polygon is not None
    for here, there in zip(again.payable_amount.polygon, fields.payable_amount.polygon, strict=True):
        assert here == pytest.approx(there, abs=0.02)


def test_a_clean_receipt_is_looked_at_once(tmp_path: Path, rapidocr_engine: Engine) -> None:
    _, image = drawn_sale("restaurant", 4, seed=6)
    image.save(tmp_path / "receipt.png")
    text, _ = fields_of(tmp_path / "receipt.png", rapidocr_engine)
    assert text.views[0].second == text.views[0].trouble == ""


@pytest.mark.parametrize("contrast", [0.06, 0.1, 0.2])
def test_flattening_makes_faint_print_dark_on_white_without_hard_edges(contrast: float) -> None:
    page = np.asarray(draw_receipt())
    flat = restore.flatten(faint(page, contrast))
    assert flat.shape == page.shape
    assert contrast_of(flat) > 150
    assert len(np.unique(flat)) > 60, "gray, not black and white"
    assert np.median(flat) > 200


def test_flattening_takes_a_shadow_off_the_paper() -> None:
    page = np.asarray(draw_receipt())
    shaded = half_in_shadow(page, 0.25)
    flat = restore.flatten(shaded)
    for columns in (slice(0, 100), slice(-100, None)):
        assert np.percentile(flat[:, columns], 60) > 240
    assert np.percentile(shaded[:, -100:], 60) < 100


@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (8, 8), (257, 255), (3, 3000), (3000, 5), (600, 400, 3)])
def test_pages_of_any_shape_and_shade_are_flattened(shape: tuple[int, ...]) -> None:
    for shade in (0, 128, 255):
        flat = restore.flatten(np.full(shape, shade, np.uint8))
        assert flat.shape == shape[:2]
        assert flat.min() >= 250, "paper without print stays paper"


def test_no_seam_shows_where_strips_meet() -> None:
    page = np.tile(np.linspace(90, 250, 900), (1200, 1)).astype(np.uint8)
    flat = restore.flatten(page).astype(int)
    assert np.abs(np.diff(flat, axis=0)).max() <= 1


def test_paper_is_judged_where_text_is() -> None:
    page = np.asarray(draw_receipt()).copy()
    boxes = [Box("x", ((0.05, y), (0.95, y), (0.95, y + 0.08), (0.05, y + 0.08)), 0.9) for y in (0.1, 0.32, 0.55, 0.77)]
    assert restore.judge(page, boxes).trouble == ""
    assert restore.judge(faint(page, 0.08), boxes).trouble == "faint print"
    dark = page.copy()
    dark[: page.shape[0] // 2] = dark[: page.shape[0] // 2] * 0.25
    assert restore.judge(dark, boxes).trouble == "uneven light"
    assert restore.judge(dark, [replace(box, confidence=0.99) for box in boxes]).trouble == "", "read well all the same"
    assert restore.judge(page, []) is None
