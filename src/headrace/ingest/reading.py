"""What a worker does with one document: decode, recognise, extract, and in doubt look again. No exception comes back.

    first look -> fields -> doubts? -> second look at the pages in doubt -> fields -> the better of the two

This runs in the worker processes. The parent imports only `Reading` and `ReadDocuments`, which load nothing heavy.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from headrace import __version__
from headrace.documents.document import Document
from headrace.documents.errors import DocumentError, DocumentFailure, ExtractionIncomplete, PayloadTooLarge
from headrace.documents.status import DocumentState
from headrace.execution.progress import report_progress
from headrace.ingest.second_look import better, doubts, settled

if TYPE_CHECKING:
    from headrace.documents.receipt import ReceiptFields
    from headrace.extraction.directory import Directory
    from headrace.ingest.confirmed import Confirmed
    from headrace.ocr.engine import Engine
    from headrace.ocr.limits import ReadLimits
    from headrace.ocr.read import DocumentText

UNREADABLE = "unreadable"
"""Kind of a document without a path, whose source said why; its `path` holds real kind and failure as JSON."""

SCHEMA_VERSION = "1"  # as `documents.receipt` has it; that module is not loaded in the parent


@dataclass(frozen=True, slots=True)
class Reading:
    """What became of one document, as plain data that crosses the pipe.

    Attributes:
        state: succeeded, partial (some pages failed) or failed.
        sha256, size_bytes: of the bytes as they were read now; empty and 0 when they could not be read.
        pages: how many pages were read.
        receipt: a `Receipt` as JSON types; None when it failed.
        failure: why it failed; None otherwise.
        durations_ms: time by step; a measurement, never part of the ledger.
        observed: sentences with what was measured of failures, never part of the ledger either.
    """

    state: DocumentState
    sha256: str = ""
    size_bytes: int = 0
    pages: int = 0
    receipt: dict[str, Any] | None = None
    failure: DocumentFailure | None = None
    durations_ms: dict[str, float] = field(default_factory=dict)
    observed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadDocuments:
    """Makes the function that reads documents; called once in each worker, where the models are then loaded.

    Attributes:
        engine: name of the OCR engine.
        limits: the limits of one document (`ocr.limits.ReadLimits`), as keyword arguments.
        max_document_bytes: a larger file fails before it is read.
        today: the day of the batch, so that "in the future" means the same on every rerun; a document's own wins.
        merchants: confirmed ones, with how often; all workers of a run have the same, whatever becomes of the file.
    """

    engine: str
    limits: dict[str, Any]
    max_document_bytes: int
    today: dt.date
    merchants: tuple[tuple[Confirmed, int], ...] = ()

    def __call__(self) -> Callable[[Document], Reading]:
        """Loads the engine and returns the function."""
        from headrace.ocr.limits import ReadLimits
        from headrace.ocr.registry import create_engine

        engine = create_engine(self.engine)
        directory = self._directory()
        limits = ReadLimits(**self.limits)

        def read(document: Document) -> Reading:
            if document.kind == UNREADABLE:
                return Reading(DocumentState.FAILED, failure=unreadable_failure(document.path))
            try:
                self._check_size(document)
                today = dt.date.fromisoformat(document.today) if document.today else self.today
                text, fields = read_fields(document.path, engine, limits, today, directory)
            except DocumentError as error:
                return _failed(error, document)
            state = DocumentState.PARTIAL if text.partial else DocumentState.SUCCEEDED
            receipt = _receipt(document, text, fields, engine)
            return Reading(
                state, text.sha256, text.size_bytes, text.page_count, receipt, None, text.durations_ms, text.observed
            )

        return read

    def _check_size(self, document: Document) -> None:
        with contextlib.suppress(OSError):  # opening it says what is wrong, in the words of a document
            if (size_bytes := os.stat(document.path).st_size) > self.max_document_bytes:
                raise PayloadTooLarge(
                    f"it has {size_bytes:,} bytes; --max-document-bytes is {self.max_document_bytes:,}"
                )

    def _directory(self) -> Directory | None:
        from headrace.extraction.directory import Directory

        return Directory(self.merchants) if self.merchants else None


def read_fields(
    path: bytes | str, engine: Engine, limits: ReadLimits, today: dt.date, directory: Directory | None = None
) -> tuple[DocumentText, ReceiptFields]:
    """The text of a document and what it says: of the first look, or of the second where that is better.

    Raises:
        DocumentError: it cannot be read; see `read_document`.
        ExtractionIncomplete: a rule failed on its text.
        MemoryError: it does not fit into what this process may have.
    """
    from headrace.ocr.cascade import legibility, second_looks
    from headrace.ocr.read import read_document

    began = time.monotonic()
    first = read_document(path, engine, limits, on_page=report_progress)
    fields = _extract(first, today, directory)
    again = second_looks(first, doubts(fields, first.pages))
    left_s = limits.document_timeout_s - (time.monotonic() - began)
    if not again or left_s < limits.document_timeout_s / 2:
        return first, fields
    try:
        look = read_document(path, engine, replace(limits, document_timeout_s=left_s), again=again)
        second = first.with_pages(look)
        if look.sha256 != first.sha256:
            return first, fields  # the file was changed meanwhile; what was read stands for the bytes that were read
        fields_again = _extract(second, today, directory)
    except DocumentError:
        return first, fields  # the first look was good enough to be a result
    first.durations_ms.update(second.durations_ms)
    text_before, text_after = legibility(first.pages), legibility(second.pages)
    poor = all(view.trouble for view in again.values())
    kept = better(settled(fields), settled(fields_again), text_before, text_after, poor=poor)
    return (second, fields_again) if kept else (first, fields)


def _extract(text: DocumentText, today: dt.date, directory: Directory | None) -> ReceiptFields:
    from headrace.extraction.extractor import extract

    started = time.perf_counter()
    try:
        return extract(text.pages, today=today, directory=directory)
    except Exception as error:  # a rule met text it was not made for: that costs this document, with its reason
        why = "a rule failed on this text; please report the file"
        raise ExtractionIncomplete(why, observed=f"{type(error).__name__}: {error}") from error
    finally:
        took_ms = (time.perf_counter() - started) * 1000
        text.durations_ms["extract"] = text.durations_ms.get("extract", 0.0) + took_ms


def _receipt(document: Document, text: DocumentText, fields: ReceiptFields, engine: Engine) -> dict[str, Any]:
    readings = [view.reading(engine.name, page.source) for view, page in zip(text.views, text.pages, strict=True)]
    return {
        "schema_version": SCHEMA_VERSION,
        "document_id": document.document_id,
        "sha256": text.sha256,
        "source": {"kind": document.kind, "uri": document.uri},
        "pages": text.page_count,
        **fields.model_dump(mode="json"),
        "processing": {
            "pipeline_version": __version__,
            "engine": engine.name,
            "models": list(engine.models),
            "warnings": list(text.warnings),
            "page_failures": [{"page": f.page, "code": f.code, "detail": f.detail} for f in text.page_failures],
            "page_readings": [reading.model_dump(mode="json") for reading in readings],
        },
    }


def unreadable(error: DocumentError, kind: str) -> bytes:
    """What stands in place of a path when the source already said why a document of this kind cannot be read."""
    return json.dumps({"kind": kind, "failure": error.failure().as_dict()}).encode()


def unreadable_failure(path: bytes) -> DocumentFailure:
    """The failure that `unreadable` wrote down."""
    return DocumentFailure(**json.loads(path)["failure"])


def source_kind(document: Document) -> str:
    """How the document came, as the ledger says it: `file`, `archive-member` or `blob`."""
    return str(json.loads(document.path)["kind"]) if document.kind == UNREADABLE else document.kind


def _failed(error: DocumentError, document: Document) -> Reading:
    """A failure, with the digest of the bytes that failed where they can be read."""
    from headrace.ocr.read import digest_source

    failure, observed = error.failure(), (error.observed,) if error.observed else ()
    if isinstance(error, PayloadTooLarge):  # refused unread, however long its digest would take
        return Reading(DocumentState.FAILED, failure=failure, observed=observed)
    try:
        digest = digest_source(document.path)
    except DocumentError:
        return Reading(DocumentState.FAILED, failure=failure, observed=observed)
    return Reading(DocumentState.FAILED, digest.sha256, digest.size_bytes, failure=failure, observed=observed)
