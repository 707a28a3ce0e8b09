"""The engine that reads nothing: for load tests of everything around it. Loads no library."""

from __future__ import annotations

from headrace.documents.text import Box
from headrace.ocr.engine import Effort, PageImage


class NullEngine:
    """Finds no text, costs nothing; documents are still opened and hashed, but not decoded."""

    name = "null"
    models: tuple[str, ...] = ()
    needs_pages = False

    def recognise(self, image: PageImage, effort: Effort = Effort.USUAL) -> tuple[Box, ...]:
        """No boxes, whatever the page."""
        return ()

    def close(self) -> None:
        """Nothing to free."""
