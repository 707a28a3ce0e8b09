"""A large document on its way: in as many requests as it takes, each from where the one before broke off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from urllib.parse import quote

import httpx

from headrace.client.connection import SILENCE_S, Answer, Connection
from headrace.client.errors import ClientError, NotAllowed, ProblemError, UnexpectedAnswer
from headrace.client.uploads import Prepared

RESUMABLE_BYTES = 8 << 20
"""From this size on a document is sent so that it can go on; a smaller one is sooner sent again."""

_GOODBYE_S = 2.0
_GONE = frozenset({404, 410})
_NOT_THERE = frozenset({404, 405})


class NoUploads(Exception):
    """The service knows no resumable uploads, or not the batch: sent as any other document, it says which."""


class ResumedUpload:
    """One upload of one document, as draft-ietf-httpbis-resumable-upload has it. Belongs to one call.

    Args:
        connection: to the service.
        prepared, key: what is sent, and under which idempotency key.
        params: of the address: class, id, batch.
        headers: for the request that completes it.
        wait_s: how long the service may wait before it answers that one.
        heard: called for each answer on the way.

    Attributes:
        offset_bytes: how much the service has, as it said last.
    """

    def __init__(
        self,
        connection: Connection,
        prepared: Prepared,
        key: str,
        *,
        params: Mapping[str, str | int],
        headers: Mapping[str, str],
        wait_s: int,
        heard: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._prepared, self._key = prepared, key
        self._params, self._headers, self._wait_s = params, headers, wait_s
        self._heard = heard
        self._path = ""
        self._sure = False
        self.offset_bytes = 0

    async def attempt(self) -> Answer:
        """Goes on where the last attempt ended; the answer is that of the document.

        Raises:
            NoUploads: see there.
            OSError: the file cannot be read any more.
            As `Connection.ask`.
        """
        try:
            return await self._go_on()
        except ProblemError as error:
            if not self._path or error.problem.status not in _GONE:
                raise
        self._path = ""  # it expired, or the service lost it: from the beginning
        return await self._go_on()

    async def abandon(self) -> None:
        """Gives the place of an unfinished upload back; when the service cannot be asked, that is done by its clock."""
        if self._path:
            with suppress(ClientError, httpx.TransportError, TimeoutError):
                async with asyncio.timeout(_GOODBYE_S):
                    await self._connection.ask("DELETE", self._path, empty=True)

    async def _go_on(self) -> Answer:
        if not self._path:
            await self._begin()
        elif not self._sure:
            looked = await self._connection.ask("HEAD", self._path, empty=True)
            self._heard()
            self.offset_bytes = _offset_in(looked)
            if looked.headers.get("Upload-Complete") == "?1":
                return await self._document(looked)
        self._sure = False  # whatever ends this request early
        left_bytes = self._prepared.size_bytes - self.offset_bytes
        told = {
            **self._headers,
            "Content-Type": "application/partial-upload",
            "Content-Length": str(left_bytes),
            "Upload-Offset": str(self.offset_bytes),
            "Upload-Complete": "?1",
        }
        with self._prepared.opened(self.offset_bytes) as content:
            return await self._connection.ask(
                "PATCH", self._path, headers=told, content=content, silence_s=SILENCE_S + self._wait_s
            )

    async def _begin(self) -> None:
        told = self._prepared.headers(self._key) | {
            "Content-Length": "0",
            "Upload-Complete": "?0",
            "Upload-Length": str(self._prepared.size_bytes),
        }
        del told["Content-Type"]
        try:
            begun = await self._connection.ask("POST", "/v1/uploads", params=self._params, headers=told, empty=True)
        except ProblemError as error:
            if error.problem.status in _NOT_THERE:
                raise NoUploads from error
            raise
        name = begun.headers.get("Location", "").rpartition("/")[2]
        if not name:
            raise UnexpectedAnswer("an upload was begun, and its address was not told")
        self._heard()
        self._path, self._sure, self.offset_bytes = f"/v1/uploads/{quote(name, safe='')}", True, 0

    async def _document(self, looked: Answer) -> Answer:
        """What a completed upload became, when the answer that said so was lost."""
        name = looked.headers.get("Content-Location", "").rpartition("/")[2]
        try:
            return await self._connection.ask("GET", f"/v1/documents/{quote(name, safe='')}")
        except NotAllowed:
            # This key hands in, and may not look: the same bytes under the same key get the same answer again.
            self._path = ""
            return await self._go_on()


def _offset_in(answer: Answer) -> int:
    text = answer.headers.get("Upload-Offset", "")
    if not (text.isascii() and text.isdigit()):
        raise UnexpectedAnswer("the service does not say how much of the upload it has")
    return int(text)
