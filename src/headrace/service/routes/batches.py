"""Batches: a whole one in one body, or one document after the other; progress, and results in submission order."""

from __future__ import annotations

import asyncio
import tempfile
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import IO, Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from headrace.documents.errors import DocumentError
from headrace.flow import Admitted, Refusal, ServiceClass
from headrace.service import replies, reply_models
from headrace.service.auth import Role
from headrace.service.batch_body import BATCH_TYPES, Item, media_type_of, read_items
from headrace.service.edge import Edge, Exchange, exchange_of, until_closing
from headrace.service.envelope import json_bytes
from headrace.service.openapi import answers
from headrace.service.problems import Problem, problem_of
from headrace.service.reception import BatchView, ReceptionError, Submission
from headrace.service.request_headers import idempotency_key
from headrace.service.turn import Turn
from headrace.storage.errors import StorageFull, StoreError

BatchId = Annotated[int, Path(ge=1, le=2**53)]
NDJSON = "application/x-ndjson"
_MOST_VERDICT_BYTES = 1 << 18
_AT_ONCE = 16
"""Documents of one batch that are being made durable at the same time; each has its permit."""

_UNREADABLE = Problem("corrupt-document", "it cannot be read")


def router(edge: Edge) -> APIRouter:
    """The routes of batches."""
    routes = APIRouter(prefix="/v1/batches", tags=["batches"])
    threads = ThreadPoolExecutor(edge.limits.requests.batches, thread_name_prefix="archive")

    @routes.post(
        "",
        status_code=202,
        responses=answers(
            {201: reply_models.BatchReply, 202: reply_models.SubmittedBatch}, 400, 408, 409, 413, 415, 422, 429, 503
        ),
        openapi_extra={
            "requestBody": {
                "content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in BATCH_TYPES}
            }
        },
    )
    async def submit_batch(
        request: Request, service_class: Annotated[reply_models.ClassName, Query(alias="class")] = "batch"
    ) -> Response:
        """A whole batch as one body, read only as fast as it is admitted; or, without a body, an open batch."""
        exchange = exchange_of(request)
        client = exchange.principal(Role.SUBMIT).client
        exchange.accepts("application/json")
        key = idempotency_key(exchange.header(b"idempotency-key"))
        if key is None and edge.limits.requests.require_idempotency_key:
            raise Problem("idempotency-key-missing", 'send Idempotency-Key: "..." with a value of your own')
        class_ = replies.CLASSES[service_class]
        if exchange.body.empty:
            view = await edge.reception.open_batch(client, class_, key=key)
            return _batch_response(view, 201)
        media_type_of(exchange.header(b"content-type"))
        with edge.batch():
            exchange.body.allow(edge.limits.requests.batch_bytes)
            return await BatchIntake(edge, exchange, client, class_, key, threads).run()

    @routes.get("/{batch_id}", responses=answers({200: reply_models.BatchReply}, 400))
    async def get_batch(request: Request, batch_id: BatchId) -> Response:
        """How far a batch is."""
        exchange = exchange_of(request)
        client = exchange.principal(Role.READ).sees
        exchange.accepts("application/json")
        return _batch_response(await _existing(edge, client, batch_id), 200)

    @routes.post("/{batch_id}:close", responses=answers({200: reply_models.BatchReply}, 400))
    async def close_batch(request: Request, batch_id: BatchId) -> Response:
        """No more documents come."""
        exchange = exchange_of(request)
        client = exchange.principal(Role.SUBMIT).sees
        exchange.accepts("application/json")
        return _batch_response(await edge.reception.close_batch(client, batch_id), 200)

    @routes.get(
        "/{batch_id}/results",
        responses=answers({200: None}, 400, 429)
        | {200: {"description": "One ledger entry a line, in submission order", "content": {NDJSON: {}}}},
    )
    async def get_results(
        request: Request,
        batch_id: BatchId,
        after: Annotated[int, Query(ge=0, le=2**53)] = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 256,
        follow: bool = False,
    ) -> Response:
        """The results behind position `after`, in submission order; `follow` streams until the batch is done."""
        exchange = exchange_of(request)
        client = exchange.principal(Role.READ).sees
        exchange.accepts(NDJSON, "application/json")
        await _existing(edge, client, batch_id)
        if follow:
            if edge.streams >= edge.limits.requests.streams:
                with edge.stream():
                    pass  # raises the refusal while there is still a status to send it with
            pieces = until_closing(edge, _followed(edge, client, batch_id, after, limit))
            return StreamingResponse(pieces, media_type=NDJSON, headers={"Cache-Control": "no-store"})
        entries = await edge.reception.results(client, batch_id, after, limit)
        headers = {"Cache-Control": "no-store"}
        if len(entries) == limit:
            headers["Link"] = f'</v1/batches/{batch_id}/results?after={entries[-1].position}&limit={limit}>; rel="next"'
        content = b"".join(entry.json_line() for entry in entries)
        return Response(content, media_type=NDJSON, headers=headers)

    return routes


@dataclass
class BatchIntake:
    """Takes one body of a batch in, item by item. Holds one verdict at a time; the others are on disk.

    The answer is about all items that were read. When room does not come in time, or the service stops, reading ends
    there: `complete` is false, what was accepted stays accepted, and the same body sent again with the same
    Idempotency-Key goes on.
    """

    edge: Edge
    exchange: Exchange
    client: str
    service_class: ServiceClass
    key: str | None
    threads: ThreadPoolExecutor
    accepted: int = 0
    refused: int = 0
    problem: Problem | None = None
    spare: Admitted | None = None
    error: BaseException | None = None

    async def run(self) -> Response:
        """Reads the body to its end and answers."""
        reception = self.edge.reception
        submission = Submission(self.client, self.service_class)
        # The first document's place is decided before anything is read: a batch that is refused sends no byte.
        first = reception.decide(submission)
        if isinstance(first, Refusal):
            raise self.edge.refuse(first, submission)
        self.spare = first
        try:
            items = read_items(
                self.exchange.body,
                self.exchange.header(b"content-type"),
                item_bytes=self.edge.document_bytes,
                threads=self.threads,
            )
            view = await reception.open_batch(self.client, self.service_class, key=self.key)
            if view.replayed and view.state != "open":
                return await self._again(view)
            return await self._take(view, items, replace(submission, batch_id=view.batch_id))
        finally:
            if self.spare is not None:
                self.spare.permit.ignore()  # there was no first document

    async def _again(self, view: BatchView) -> Response:
        """The answer to a batch that was taken whole before: nothing is read."""
        settled = await self.edge.reception.batch(self.client, view.batch_id) or view
        settled = replace(settled, replayed=True)
        kept = await self.edge.reception.answers.find(view.batch_id)
        if kept is None:
            told = {"complete": True, "items_accepted": settled.accounts.accepted, "items_refused": 0, "items": []}
            return _batch_response(settled, 202, told)
        counts, verdicts = kept
        answer = _batch_response(settled, 202, {"complete": True, **counts})
        return _VerdictsResponse(bytes(answer.body), verdicts, dict(answer.headers), begins_at=verdicts.tell())

    async def _take(self, view: BatchView, items: AsyncGenerator[Item, None], submission: Submission) -> Response:
        reception = self.edge.reception
        verdicts: IO[bytes] = tempfile.SpooledTemporaryFile(_MOST_VERDICT_BYTES)  # noqa: SIM115  # the answer closes it
        try:
            async with aclosing(items):
                await self._read(submission, items, verdicts)
            if self.problem is None:
                if self.key is not None:  # before it is closed: one that is open is read again
                    counts = {"items_accepted": self.accepted, "items_refused": self.refused}
                    await reception.answers.keep(view.batch_id, counts, verdicts)
                await reception.close_batch(self.client, view.batch_id)
            settled = await reception.batch(self.client, view.batch_id)
        except BaseException:
            verdicts.close()
            if self.key is None and not self.accepted:  # with a key, the same body may come again
                await reception.close_batch(self.client, view.batch_id)
            raise
        told: dict[str, Any] = {
            "complete": self.problem is None,
            "items_accepted": self.accepted,
            "items_refused": self.refused,
        }
        if self.problem is not None:
            told["problem"] = self.problem.as_dict()
        answer = _batch_response(settled or view, 202, told)
        return _VerdictsResponse(bytes(answer.body), verdicts, dict(answer.headers))

    async def _read(self, submission: Submission, items: AsyncIterator[Item], verdicts: IO[bytes]) -> None:
        """Reads item by item. The bytes of the next are read while those of the last few are made durable."""
        settling: deque[asyncio.Future[dict[str, Any] | None]] = deque()
        turn: Turn | None = None
        index = 0
        try:
            async for item in items:
                index += 1
                if index > self.edge.limits.requests.batch_documents:
                    self.problem = Problem("payload-too-large", f"more than {index - 1} documents in one body")
                elif item.pieces is None:
                    settling.append(_settled(self._refusal(item, index, item.problem or _UNREADABLE)))
                else:
                    decision = self.spare or await self._room(submission, item)
                    self.spare = None
                    if isinstance(decision, Refusal):
                        self.problem = self.edge.refuse(decision, submission)
                    else:
                        turn = Turn(turn)
                        read = asyncio.Event()
                        settling.append(asyncio.create_task(self._item(submission, item, index, decision, turn, read)))
                        await read.wait()
                while len(settling) > _AT_ONCE:
                    self._write(await settling.popleft(), verdicts)
                if self.problem is not None:
                    break
        except Problem as problem:  # the body breaks off; what came before it is good
            self.problem = problem
        finally:
            for verdict in await asyncio.gather(*settling, return_exceptions=True):
                if isinstance(verdict, BaseException):
                    self.error = verdict
                else:
                    self._write(verdict, verdicts)
        if self.error is not None:
            raise self.error
        if self.problem is not None and not self.accepted:
            raise self.problem

    @staticmethod
    def _write(verdict: dict[str, Any] | None, verdicts: IO[bytes]) -> None:
        if verdict is not None:
            verdicts.write((b"," if verdicts.tell() else b"") + json_bytes(verdict))

    async def _room(self, submission: Submission, item: Item) -> Admitted | Refusal:
        """Waits for room; meanwhile nothing is read, and TCP slows the client down."""
        asked = replace(submission, declared_bytes=item.size_bytes)
        return await self.edge.reception.admit(asked, self.edge.limits.requests.admit_s)

    async def _item(
        self, submission: Submission, item: Item, index: int, admitted: Admitted, turn: Turn, read: asyncio.Event
    ) -> dict[str, Any] | None:
        """The verdict on an item, or None when the body breaks off inside of it. `read`: nothing more of it is read."""
        assert item.pieces is not None
        submission = replace(
            submission,
            filename=item.name,
            declared_bytes=item.size_bytes,
            external_id=item.external_id,
            idempotency_key=f"{self.key}/{index}" if self.key else None,
        )
        try:
            pieces = _telling(item.pieces, read)
            accepted = await self.edge.reception.accept(submission, admitted.permit, pieces, turn)
        except (DocumentError, ReceptionError) as error:
            return self._refusal(item, index, problem_of(error))
        except (StorageFull, StoreError, Refusal) as error:
            self.problem = problem_of(error)
            return self._refusal(item, index, self.problem)
        except Problem as problem:
            self.problem = problem
            return None
        finally:
            read.set()
            await turn.comes()
            turn.pass_on()
        self.accepted += 1
        told = {"index": index, "name": item.name, "status": 202}
        told |= {"document_id": accepted.document_id, "position": accepted.position, "sha256": accepted.sha256}
        return told | ({"replayed": True} if accepted.replayed else {})

    def _refusal(self, item: Item, index: int, problem: Problem) -> dict[str, Any]:
        self.refused += 1
        return {"index": index, "name": item.name, "status": problem.status_code, "problem": problem.as_dict()}


async def _telling(pieces: AsyncIterator[bytes], read: asyncio.Event) -> AsyncIterator[bytes]:
    async for piece in pieces:
        yield piece
    read.set()


def _settled(verdict: dict[str, Any]) -> asyncio.Future[dict[str, Any] | None]:
    future: asyncio.Future[dict[str, Any] | None] = asyncio.get_running_loop().create_future()
    future.set_result(verdict)
    return future


async def _existing(edge: Edge, client: str | None, batch_id: int) -> BatchView:
    view = await edge.reception.batch(client, batch_id)
    if view is None:
        raise Problem("not-found", f"there is no batch {batch_id}")
    return view


async def _followed(edge: Edge, client: str | None, batch_id: int, after: int, limit: int) -> AsyncIterator[bytes]:
    reception, keep_alive_s = edge.reception, edge.limits.requests.keep_alive_s
    while True:
        # Asked before the entries: what is finished by now has all of them by then.
        view = await reception.batch(client, batch_id)
        entries = await reception.results(client, batch_id, after, limit)
        if entries:
            after = entries[-1].position
            yield b"".join(entry.json_line() for entry in entries)
        elif view is None or (view.state != "open" and not view.accounts.in_flight):
            return
        elif not await reception.more_results(batch_id, after, keep_alive_s):
            yield b"\n"  # an empty line: still here


def _batch_response(view: BatchView, status: int, told: dict[str, Any] | None = None) -> Response:
    headers = {"Cache-Control": "no-store"}
    if status != 200:
        headers["Location"] = f"/v1/batches/{view.batch_id}"
    if view.replayed:
        headers["Idempotency-Replayed"] = "true"
    if status == 202:
        headers["Retry-After"] = "1"
    reply = json_bytes(replies.batch(view) | (told or {}))
    return Response(reply, status, media_type="application/json", headers=headers)


class _VerdictsResponse(StreamingResponse):
    """A batch with its verdicts, which are read from where they were put aside; that is closed in any case."""

    def __init__(self, reply: bytes, verdicts: IO[bytes], headers: dict[str, str], begins_at: int = 0) -> None:
        del headers["content-length"]
        super().__init__(_with_items(reply, verdicts, begins_at), 202, headers)
        self._verdicts = verdicts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._verdicts.close()


async def _with_items(reply: bytes, verdicts: IO[bytes], begins_at: int) -> AsyncIterator[bytes]:
    verdicts.seek(begins_at)
    yield reply[:-1] + b',"items":['
    for piece in iter(partial(verdicts.read, 1 << 16), b""):
        yield piece
    yield b"]}"
