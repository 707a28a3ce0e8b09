"""What each OCR engine costs: the one place for these figures. `bounds.derive` counts with them.

Measured on 60 to 600 mixed receipts at one thread, 2026-11-30 (RapidOCR peaked at 340 MB, Tesseract at 241 MB).
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

MB = 10**6


@dataclass(frozen=True, slots=True)
class EngineCost:
    """One engine in one worker.

    Attributes:
        engine: its name, as in `--engine`.
        rss_at_rest_bytes: of a worker that has loaded its models and reads nothing.
        rss_peak_bytes: of a worker on ordinary pages.
        bytes_per_pixel: what a decoded page adds to that peak at most, for the largest page that is allowed; 0 for an
            engine that decodes nothing.
        seconds_per_page: processor time of one page on one core.
    """

    engine: str
    rss_at_rest_bytes: int
    rss_peak_bytes: int
    bytes_per_pixel: float
    seconds_per_page: float


ENGINE_COSTS = MappingProxyType(
    {
        cost.engine: cost
        for cost in (
            EngineCost("rapidocr", 270 * MB, 400 * MB, 4, 0.9),
            EngineCost("rapidocr-plain", 300 * MB, 1200 * MB, 4, 2.0),
            EngineCost("tesseract", 100 * MB, 300 * MB, 4, 0.3),
            EngineCost("null", 40 * MB, 60 * MB, 0, 0.0005),
        )
    }
)

PARENT_AT_REST_BYTES = 110 * MB
"""The parent with store, ledger and progress loaded, and nothing in the window."""

RESULT_BYTES = 256 * 1024
"""What one finished document takes in the parent while it waits for its turn: the largest usual one, 400 lines."""
