"""What the service answers without touching a document: the ledger, what happened, and its own numbers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.documents.entry import Entry
from headrace.service.capacity import capacity_view
from headrace.service.house import EVENTS, House
from headrace.service.looking import as_event
from headrace.service.progress import PageProgress
from headrace.service.tallies import Tallies
from headrace.service.views import CapacityView, Event, HealthView, Proof
from headrace.storage.store import DeadLetter

_STOCK_S = 1.0


class Records(House):
    """Answers from the store's reader, beside the writer, and from memory."""

    _stock: tuple[int, int] | None = None

    async def ledger(self, book: str | None = None, after: int = 0, limit: int = 256) -> list[Entry]:
        """The next entries of a book (None: the service's own), amendments included, in order of sequence."""
        name = book or self._settings.book
        return await self._look(lambda store: store.entries(book=name, after_sequence=after, limit=limit))

    async def proof(self, sequence: int, book: str | None = None) -> Proof | None:
        """An entry with its neighbours' hashes."""
        found, head = await self._look(lambda store: store.entry_and_next(book or self._settings.book, sequence))
        if not found or found[0].sequence != sequence:
            return None
        behind = found[1] if len(found) > 1 else None
        return Proof(found[0], behind.entry_hash if behind else None, behind.content if behind else None, head)

    async def dead_letters(self, after: int = 0, limit: int = 100, client: str | None = None) -> list[DeadLetter]:
        """The next failed documents that nobody has asked to run again, by number."""
        if client is None:
            return await self._look(lambda store: store.dead_letters(after_number=after, limit=limit))
        return await self._look(lambda store: store.letters_of(client, after, limit))

    async def events(self, after: int, limit: int = 256, client: str | None = None) -> list[Event]:
        """The next events. When `after` is older than what is kept, the first one kept comes next."""
        return [as_event(row) for row in await self._look(lambda store: store.happened(after, limit, client))]

    async def more_events(self, after: int, deadline_s: float, *, news_after: int | None = None) -> bool:
        """Waits until there is an event behind this one; False at the deadline, and when the service ends.

        With `news_after`, news of progress behind that number will do, too.
        """

        async def is_there() -> bool | None:
            if self._last_event > after or (news_after is not None and self._underway.number > news_after):
                return True
            return None if self._state in ("stopped", "broken") else False

        return await self._bell.until(EVENTS, is_there, deadline_s)

    def progress(self, after: int, client: str | None = None) -> tuple[int, list[PageProgress]]:
        """The news of documents that are being read behind this number, and the number of the last news of all."""
        return self._underway.number, self._underway.behind(after, client)

    @property
    def last_event_id(self) -> int:
        """The id of the newest event."""
        return self._last_event

    async def last_drain(self) -> Mapping[str, Any] | None:
        """The report of the last stop, with `at`; None before the first."""
        return await self._look(lambda store: store.last_drain())

    def quota(self, client: str) -> tuple[float, float, float] | None:
        """What is left of a client's quota: documents now, burst, documents per second; None when it has none."""
        return None if self._intake is None else self._intake.tokens(client)

    def capacity(self) -> CapacityView:
        """Every bound, and how fast things go. From memory."""
        view = capacity_view(
            self.limits,
            self._bounds,
            admission=self._admission,
            line=self._line,
            pool=self._pool.statistics(),
            spool=self._spool if self._intake is not None else None,
            intake=self._intake,
            outcomes=self._dispatcher.outcomes if self._dispatcher is not None else {},
            commits=self._commits if self._intake is not None else None,
        )
        uploads = (*self.uploads.bounds(), self.answers.bound()) if self._intake is not None else ()
        parts = self.webhooks.bounds() + self.pages.bounds() + self.search.bounds()
        return replace(view, bounds=view.bounds + uploads + parts, indexing=self.indexing.view())

    @property
    def tallies(self) -> Tallies:
        """What was measured of the documents that ended since the start."""
        return self._dispatcher.tallies if self._dispatcher is not None else Tallies()

    async def stock(self) -> tuple[int, int] | None:
        """How many dead letters wait, and the last number of the book; as it was when the store cannot be asked."""
        with contextlib.suppress(Exception):  # an outage: the numbers of before it are better than none
            async with asyncio.timeout(_STOCK_S):
                book = self._settings.book
                self._stock = await self._look(lambda store: (store.dead_count(), store.head(book).sequence))
        return self._stock

    def health(self) -> HealthView:
        """From memory."""
        problems = []
        if self._intake is not None and self._spool.full:
            problems.append(f"storage is full: {self._spool.full}")
        if self._dispatcher is not None and self._dispatcher.problem:
            problems.append(f"nothing can be committed: {self._dispatcher.problem}")
        live = self._state not in ("broken", "stopped")
        return HealthView(live, self._state == "serving" and not problems, self._state, tuple(problems))
