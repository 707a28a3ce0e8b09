"""The client: every call with all its attempts, for asyncio. `Client` is the same for those who do not use asyncio."""

from __future__ import annotations

import asyncio
import os
import random
import uuid
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping
from contextlib import ExitStack, aclosing, suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import quote

import httpx

from headrace.client.answers import Batch, Capacity, Document, Result
from headrace.client.attempts import Attempts, Lane
from headrace.client.batches import Known, Sending, Submitted, Verdict
from headrace.client.connection import SILENCE_S, Answer, Connection
from headrace.client.errors import ClientError, Unreachable
from headrace.client.following import Following
from headrace.client.resuming import RESUMABLE_BYTES, NoUploads, ResumedUpload
from headrace.client.uploads import Prepared, Upload, prepare
from headrace.flow import RetryBudget, RetryPolicy

ClassName = Literal["interactive", "batch", "background"]
KEY_VARIABLE = "HEADRACE_API_KEY"

_QUESTIONS = 4
_WINDOW = 4  # documents given and not yet decided, for each that may be in flight


class AsyncClient:
    """A headrace service, from afar. Belongs to one event loop; close it, or use it in `async with`.

    Every call is tried again where that does no harm, waits as long as the server asks it to, and ends by its deadline.
    A cancelled call leaves nothing open here; what the server accepted before stays accepted.

    Args:
        url: where it is, such as `http://127.0.0.1:8080`.
        api_key: None takes it from the environment, `HEADRACE_API_KEY`, where it is set.
        in_flight: how many uploads go at once at most. Each time the server says "later", half as many go.
        deadline_s: how long a call may take with all its attempts, when the call does not say; None sets no end.
        resumable_bytes: documents from this size on go on where they were when the connection breaks, or the service
            starts again; smaller ones are sent again.
        policy, budget: how often and how much is tried again when the server is not there.
        transport: what carries requests instead of the network, for tests.
        rng: what jitter is drawn from.

    Raises:
        ClientError: the address or the key makes no sense.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        in_flight: int = 8,
        deadline_s: float | None = 300.0,
        resumable_bytes: int = RESUMABLE_BYTES,
        policy: RetryPolicy | None = None,
        budget: RetryBudget | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        rng: random.Random | None = None,
    ) -> None:
        if in_flight < 1 or (deadline_s is not None and not deadline_s > 0):
            raise ClientError(f"needs in_flight >= 1 and deadline_s > 0, got {in_flight} and {deadline_s}")
        key = os.environ.get(KEY_VARIABLE, "").strip() if api_key is None else api_key
        # The streams of results need connections of their own, or they would wait for uploads to end.
        self._connection = Connection(url, key or None, connections=in_flight + 2 * _QUESTIONS, transport=transport)
        budget = budget or RetryBudget(ratio=0.1, reserve=max(10.0, 4.0 * in_flight))
        self._attempts = Attempts(policy, budget, rng)
        self._in_flight = in_flight
        self._deadline_s = deadline_s
        self._resumable_bytes = resumable_bytes
        self._lanes: tuple[Lane, Lane] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes all connections. Closing twice does not harm."""
        await self._connection.aclose()

    @property
    def later(self) -> int:
        """How often the server said "later" so far (429, or 503 with a Retry-After)."""
        return sum(lane.later for lane in self._lanes or ())

    @property
    def pause_s(self) -> float:
        """How long nothing is sent because the server asked for it, or is away; 0.0 when it is not so."""
        return self._lanes[0].pause.left_s if self._lanes else 0.0

    # One document

    async def submit(
        self,
        content: Upload | str | bytes | os.PathLike[str],
        *,
        name: str = "",
        service_class: ClassName = "interactive",
        key: str | None = None,
        wait_s: int | None = None,
        deadline_s: float | None = None,
    ) -> Document:
        """Hands in one document. When this returns, it is on the server's disk, exactly once.

        Args:
            content: the path of a file, or its bytes.
            name: what it is called, for people; "" takes the file's name.
            service_class: how urgent it is.
            key: your own name for this request (1 to 255 printable ASCII characters): used again within a day, it gives
                the same document. None makes one, which covers the attempts of this call.
            wait_s: wait on the server for the result for so long; the document has it when it was ready in time.
            deadline_s: how long all attempts may take; None takes that of the client.

        Raises:
            OSError: the file cannot be read.
            Rejected: it is not taken: empty, too large, of no known kind.
            ClientError: see `headrace.client.errors`.
        """
        upload = content if isinstance(content, Upload) else Upload(content, name)
        prepared = await prepare(upload)
        headers = {"Prefer": f"wait={wait_s}"} if wait_s is not None else {}
        return await self._send(None, service_class, headers, wait_s or 0, deadline_s, prepared, key or _new_key())

    async def document(self, document_id: str, *, deadline_s: float | None = None) -> Document:
        """One document, as it is now."""
        answer = await self._ask("GET", f"/v1/documents/{quote(document_id, safe='')}", deadline_s=deadline_s)
        return Document.read(answer.told, etag=answer.headers.get("ETag", ""))

    async def wait(self, document: Document, *, deadline_s: float | None = None) -> Document:
        """The document when it has its end; for as long as that takes, or `deadline_s`. Does not poll.

        Raises:
            DeadlinePassed: it has none yet.
        """
        if document.done:
            return document
        following = self._following(document.batch_id, document.position - 1, True, deadline_s or self._deadline_s)
        async with aclosing(aiter(following)) as results:
            async for result in results:
                if result.position >= document.position:
                    break
        return await self.document(document.document_id, deadline_s=deadline_s)

    async def receipt(self, document_id: str, *, deadline_s: float | None = None) -> Mapping[str, Any] | None:
        """The receipt of a document with its corrections; None while there is none (see `document` for why)."""
        return (await self.document(document_id, deadline_s=deadline_s)).receipt

    # Batches

    async def open_batch(
        self, *, key: str | None = None, service_class: ClassName = "batch", deadline_s: float | None = None
    ) -> Batch:
        """Opens a batch; with the key of an earlier one, gives that one (`replayed`)."""
        answer = await self._ask(
            "POST",
            "/v1/batches",
            params={"class": service_class},
            headers={"Idempotency-Key": f'"{key or _new_key()}"'},
            deadline_s=deadline_s,
        )
        return Batch.read(answer.told, replayed=answer.replayed)

    async def close_batch(self, batch_id: int, *, deadline_s: float | None = None) -> Batch:
        """No more documents come. Closing twice does not harm."""
        answer = await self._ask("POST", f"/v1/batches/{batch_id}:close", deadline_s=deadline_s)
        return Batch.read(answer.told)

    async def batch(self, batch_id: int, *, deadline_s: float | None = None) -> Batch:
        """One batch, as it is now."""
        return Batch.read((await self._ask("GET", f"/v1/batches/{batch_id}", deadline_s=deadline_s)).told)

    async def submit_many(
        self,
        uploads: Iterable[Upload] | AsyncIterable[Upload],
        *,
        key: str | None = None,
        service_class: ClassName = "batch",
        in_order: bool = True,
        on_open: Callable[[Batch], None] | None = None,
        on_verdict: Callable[[Verdict], None] | None = None,
        deadline_s: float | None = None,
    ) -> Submitted:
        """Hands in many documents as one batch, and closes it.

        With a `key`, an interrupted batch goes on: the same documents given again are compared with what the server
        has, by name and bytes, and only the others are sent. One that stops in the middle stays open for that. A file
        that is not taken costs only itself.

        Args:
            uploads: the documents; read only as fast as they are sent.
            key: your own name for the batch; None makes one, and then it cannot be gone on with.
            service_class: how urgent they are.
            in_order: the batch has them in the order in which they are given: one goes after the other. Without it, as
                many go at once as `in_flight` says; that is faster, and neighbours may change places.
            on_open: is given the batch once it is known, before anything is sent.
            on_verdict: is given what became of each document, in the order in which they were given.
            deadline_s: how long each document may take, with all its attempts; None takes that of the client.

        Raises:
            Conflict: the batch of this key was closed before, and there is a document that it does not have.
            ClientError: see `headrace.client.errors`; what was sent before stays accepted.
        """
        key = key or _new_key()
        batch = await self.open_batch(key=key, service_class=service_class, deadline_s=deadline_s)
        if on_open is not None:
            on_open(batch)
        submitted = Submitted(batch)

        def tell(verdict: Verdict) -> None:
            submitted.count(verdict)
            if on_verdict is not None:
                on_verdict(verdict)

        async def send(prepared: Prepared, document_key: str) -> Document:
            return await self._send(batch.batch_id, service_class, {}, 0, deadline_s, prepared, document_key)

        window = _WINDOW * self._in_flight
        with ExitStack() as stack:
            known = None
            if batch.accepted:
                known = stack.enter_context(Known())
                async with aclosing(self._taken(batch, deadline_s)) as results:
                    await known.learn(results)
            await Sending(send, key=key, window=window, in_order=in_order, known=known, tell=tell).run(uploads)
        closed = await self.close_batch(batch.batch_id, deadline_s=deadline_s)
        submitted.batch = replace(closed, replayed=batch.replayed)
        return submitted

    async def results(
        self, batch_id: int, *, after: int = 0, follow: bool = True, deadline_s: float | None = None
    ) -> AsyncGenerator[Result, None]:
        """The results of a batch in submission order. Close the iterator when you leave it early (`aclosing`).

        Goes on by itself where a connection broke or the service started again; none is missing, none comes twice.

        Args:
            batch_id: which batch.
            after: results up to this position are left out, so that you may go on yourself.
            follow: wait for those to come, until the batch is finished; else what is there now is all.
            deadline_s: how long it may wait without one new result; None waits as long as the service is there.
        """
        async with aclosing(aiter(self._following(batch_id, after, follow, deadline_s))) as results:
            async for result in results:
                yield result

    # The service

    async def capacity(self, *, deadline_s: float | None = None) -> Capacity:
        """How full it is."""
        return Capacity.read((await self._ask("GET", "/v1/capacity", deadline_s=deadline_s)).told)

    # Inside

    @property
    def _upload_lane(self) -> Lane:
        return self._both_lanes()[0]

    @property
    def _question_lane(self) -> Lane:
        return self._both_lanes()[1]

    def _both_lanes(self) -> tuple[Lane, Lane]:
        # Made inside of the loop. Two of them: that uploads shall wait is no reason not to read results.
        if self._lanes is None:
            self._lanes = (Lane(self._in_flight), Lane(_QUESTIONS))
        return self._lanes

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        headers: Mapping[str, str] | None = None,
        deadline_s: float | None,
    ) -> Answer:
        return await self._attempts.call(
            lambda: self._connection.ask(method, path, params=params, headers=headers),
            self._question_lane,
            deadline_s=deadline_s or self._deadline_s,
        )

    async def _send(
        self,
        batch_id: int | None,
        service_class: ClassName,
        headers: Mapping[str, str],
        wait_s: int,
        deadline_s: float | None,
        prepared: Prepared,
        key: str,
    ) -> Document:
        params: dict[str, str | int] = {"class": service_class}
        if prepared.upload.external_id is not None:
            params["id"] = prepared.upload.external_id

        if prepared.size_bytes >= self._resumable_bytes:
            batch = {} if batch_id is None else {"batch": batch_id}
            with suppress(NoUploads):
                answer = await self._resume(
                    ResumedUpload(
                        self._connection,
                        prepared,
                        key,
                        params=params | batch,
                        headers=headers,
                        wait_s=wait_s,
                        heard=self._upload_lane.answered,
                    ),
                    deadline_s or self._deadline_s,
                )
                return _document(answer)
        path = "/v1/documents" if batch_id is None else f"/v1/batches/{batch_id}/documents"

        async def attempt() -> Answer:
            with prepared.opened() as content:
                return await self._connection.ask(
                    "POST",
                    path,
                    params=params,
                    headers={**prepared.headers(key), **headers},
                    content=content,
                    silence_s=SILENCE_S + wait_s,
                )

        answer = await self._attempts.call(attempt, self._upload_lane, deadline_s=deadline_s or self._deadline_s)
        return _document(answer)

    async def _resume(self, upload: ResumedUpload, deadline_s: float | None) -> Answer:
        """Goes on for as long as something arrives between two failures, and the deadline has not passed."""
        loop = asyncio.get_running_loop()
        until = None if deadline_s is None else loop.time() + deadline_s
        while True:
            before_bytes = upload.offset_bytes
            left_s = None if until is None else max(0.001, until - loop.time())
            try:
                return await self._attempts.call(upload.attempt, self._upload_lane, deadline_s=left_s)
            except Unreachable:
                if upload.offset_bytes <= before_bytes:
                    raise
            except BaseException:
                await upload.abandon()
                raise

    def _following(self, batch_id: int, after: int, follow: bool, deadline_s: float | None) -> Following:
        return Following(
            self._connection,
            self._attempts,
            self._question_lane,
            batch_id,
            after=after,
            follow=follow,
            deadline_s=deadline_s,
        )

    async def _taken(self, batch: Batch, deadline_s: float | None) -> AsyncGenerator[Result, None]:
        """The results of all documents that a batch had when it was opened; waits for those that are being read."""
        async with aclosing(self.results(batch.batch_id, deadline_s=deadline_s or self._deadline_s)) as results:
            async for result in results:
                yield result
                if result.position >= batch.accepted:
                    return


def _document(answer: Answer) -> Document:
    return Document.read(answer.told, replayed=answer.replayed, etag=answer.headers.get("ETag", ""))


def _new_key() -> str:
    return uuid.uuid4().hex
