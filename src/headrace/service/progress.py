"""How far the documents are that are being read: from the workers' news, in memory only.

Nothing of it is kept: after a restart a document is read from its first page. Bounded by what the workers have in hand;
each document has its last news only, whoever did not look in between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.documents.document import Document


@dataclass(frozen=True, slots=True)
class PageProgress:
    """How far one document is.

    Attributes:
        document_id, batch_id, client: which, and whose.
        attempt: the attempt that runs, from 1.
        pages_done, pages_total: pages that are read or given up, of how many.
        eta_s: seconds until it is read, if its other pages take what these did; None before the first is done.
        number: rises with all news of all documents.
    """

    document_id: str
    batch_id: int
    client: str
    attempt: int
    pages_done: int
    pages_total: int
    eta_s: float | None
    number: int


class Underway:
    """The last news of each document that is being read.

    Args:
        now: the clock, in seconds.
        ring: called when there is news.

    Attributes:
        number: of the last news; 0 before the first.
    """

    def __init__(self, now: Callable[[], float], ring: Callable[[], None]) -> None:
        self._now = now
        self._ring = ring
        self._last: dict[str, tuple[PageProgress, float]] = {}
        self.number = 0

    def __len__(self) -> int:
        return len(self._last)

    def told(self, document: Document, client: str, done: int, total: int) -> None:
        """A worker said how far it is with a document."""
        now, known = self._now(), self._last.get(document.document_id)
        began = known[1] if known is not None and known[0].pages_done <= done else now
        self.number += 1
        eta_s = (now - began) / done * (total - done) if done and now > began else None
        attempt = document.attempts + 1
        progress = PageProgress(
            document.document_id, document.batch_id, client, attempt, done, total, eta_s, self.number
        )
        self._last.pop(document.document_id, None)  # so that the newest is last
        self._last[document.document_id] = progress, began
        self._ring()

    def gone(self, document_id: str) -> None:
        """It is not being read any more."""
        self._last.pop(document_id, None)

    def of(self, document_id: str) -> PageProgress | None:
        """How far this document is; None when it is not being read, or nothing was heard of it yet."""
        known = self._last.get(document_id)
        return None if known is None else known[0]

    def behind(self, number: int, client: str | None) -> list[PageProgress]:
        """The news behind this number, oldest first; `client=None` sees all."""
        return [
            its for its, _ in self._last.values() if its.number > number and (client is None or its.client == client)
        ]
