"""The second look: which pages are read once more, and which of two texts says more.

The first look is quick. A page is looked at again, restored and with the detector that finds smaller print, when its
picture is poor or when what the document says does not add up; at most once, and at most four pages of a document.
Pages are named in the receipt with the reason, and so is the copy that their text came from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, cast

from headrace.documents.receipt import PageReading
from headrace.documents.text import PageText, TextSource
from headrace.ocr.engine import Effort

if TYPE_CHECKING:
    from headrace.ocr.read import DocumentText

MOST_PAGES = 4
"""A document of 200 pages that is no receipt would otherwise cost three times as much."""


@dataclass(frozen=True, slots=True)
class PageView:
    """How a page was looked at.

    Attributes:
        page: its number, from 1.
        orientation: what its EXIF said; 1 when it said nothing.
        turn: degrees clockwise by which it was turned after that, because of what is on it.
        trouble: what is wrong with its picture; empty when nothing is.
        second: why it was looked at a second time, restored and thoroughly; empty for the first look.
        picture: its fingerprint, upright and not restored; None for a page without a picture, or with nothing on it.
    """

    page: int
    orientation: int = 1
    turn: int = 0
    trouble: str = ""
    second: str = ""
    picture: str | None = None

    def reading(self, engine: str, source: TextSource) -> PageReading:
        """The view as the receipt records it."""
        from headrace.ocr.orientation import CLOCKWISE_DEGREES

        degrees = (CLOCKWISE_DEGREES[self.orientation] + self.turn) % 360
        reasons = [f"EXIF orientation {self.orientation}"] if self.orientation != 1 else []
        reasons += [f"content stood turned by {360 - self.turn} degrees"] if self.turn else []
        return PageReading(
            page=self.page,
            engine=engine if source is TextSource.OCR else source.value,
            variant="flattened" if self.second else "original",
            effort=cast(Literal["usual", "thorough"], (Effort.THOROUGH if self.second else Effort.USUAL).value),
            reason=self.second or None,
            rotation_applied=cast(Literal[0, 90, 180, 270], degrees),
            rotation_reason=", ".join(reasons) or None,
            picture_hash=self.picture,
        )


def second_looks(document: DocumentText, doubts: Sequence[str]) -> dict[int, PageView]:
    """The pages worth a second look, at most `MOST_PAGES`: those with a poor picture first, then, in doubt, any others.

    Pages with text of their own are left alone: no picture of them says more.

    Args:
        document: as it was read the first time.
        doubts: what does not add up in it, in words; empty when nothing is wrong.
    """
    pictures = [
        view for view, page in zip(document.views, document.pages, strict=True) if page.source is TextSource.OCR
    ]
    poor = [view for view in pictures if view.trouble]
    others = [view for view in pictures if not view.trouble] if doubts else []
    chosen = sorted([*poor, *others][:MOST_PAGES], key=lambda view: view.page)
    return {view.page: replace(view, second=view.trouble or ", ".join(doubts)) for view in chosen}


def legibility(pages: Iterable[PageText]) -> float:
    """How much was read: letters and digits, each weighted by the square of the engine's trust in its box."""
    boxes = (box for page in pages for line in page.lines for box in line.boxes)
    return sum(box.confidence**2 * sum(c.isalnum() for c in box.text) for box in boxes)
