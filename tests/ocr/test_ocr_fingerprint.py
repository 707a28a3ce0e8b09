"""Fingerprints of pictures: the same for a copy that was saved again, another for another receipt."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from headrace.ocr.fingerprint import fingerprint
from headrace.simulation.receipts import draw_collection


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> list[Image.Image]:
    folder = tmp_path_factory.mktemp("drawn")
    draw_collection(folder, count=12, seed=5)
    found = []
    for path in sorted(folder.iterdir()):
        try:
            with Image.open(path) as image:
                found.append(image.convert("RGB"))
        except OSError:
            continue
    return found


def of(image: Image.Image) -> int:
    found = fingerprint(np.asarray(image))
    assert found is not None
    return int(found, 16)


def distance(a: Image.Image, b: Image.Image) -> int:
    return (of(a) ^ of(b)).bit_count()


def test_a_copy_saved_again_smaller_or_gray_differs_in_three_bits_at_most(pictures: list[Image.Image]) -> None:
    assert len(pictures) >= 5
    for image in pictures:
        out = io.BytesIO()
        image.save(out, "JPEG", quality=40)
        assert distance(image, Image.open(out).convert("RGB")) <= 3
        half = image.resize((image.width // 2, image.height // 2), Image.Resampling.LANCZOS)
        assert distance(image, half) <= 3
        assert distance(image, image.convert("L")) <= 3


def test_different_receipts_are_far_apart(pictures: list[Image.Image]) -> None:
    apart = [distance(a, b) for n, a in enumerate(pictures) for b in pictures[:n]]
    assert min(apart) > 3


def test_a_blank_page_has_none() -> None:
    assert fingerprint(np.full((400, 300, 3), 250, np.uint8)) is None
    assert fingerprint(np.full((400, 300), 3, np.uint8)) is None
