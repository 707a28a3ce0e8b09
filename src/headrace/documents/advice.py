"""What each failure code means and what a person can do: the one table for summary, report, ledger and docs."""

from __future__ import annotations

from types import MappingProxyType
from typing import Literal, NamedTuple


class Reason(NamedTuple):
    """One code of a failure.

    Attributes:
        code: its stable name.
        where: what it is about: the document itself, reading it, or the process that read it.
        meaning: what happened, in a sentence that fits every case. What the executor saw goes into the ledger in these
            words: whatever else it saw differs from run to run.
        advice: what to do, short enough for a line of a terminal.
    """

    code: str
    where: Literal["document", "reading", "worker"]
    meaning: str
    advice: str


_REPORT = "a bug in headrace: report the file"

REASONS = (
    Reason("empty-file", "document", "the file has no bytes", "nothing to read: hand it in again"),
    Reason(
        "unreadable-source",
        "document",
        "the path is gone, is no regular file (a pipe, a device, a dangling link), or may not be read",
        "check the path and its permissions, then replay",
    ),
    Reason(
        "unsupported-media-type",
        "document",
        "the content is none of JPEG, PNG, WebP, GIF, BMP, TIFF, HEIC, AVIF, PDF, whatever the name says",
        "convert it to JPEG, PNG, TIFF or PDF",
    ),
    Reason(
        "corrupt-document",
        "document",
        "the kind is known, but the content is broken",
        "broken file: scan or download it again",
    ),
    Reason(
        "encrypted-document",
        "document",
        "it opens only with a password",
        "remove the password, then hand it in again",
    ),
    Reason(
        "payload-too-large",
        "document",
        "more bytes than --max-document-bytes",
        "raise --max-document-bytes, then replay",
    ),
    Reason(
        "image-too-large",
        "document",
        "a page has more pixels than --max-pixels, or would take more memory to decode than a page of that size may; "
        "judged from the header, before anything is decoded",
        "raise --max-pixels, then replay; or scan it smaller or in gray",
    ),
    Reason("too-many-pages", "document", "more pages than --max-pages", "split it, or raise --max-pages and replay"),
    Reason(
        "source-url-forbidden",
        "document",
        "it is named by an address (https://, s3://, another host): nothing is fetched",
        "only files are read: fetch it, then hand it in",
    ),
    Reason(
        "bad-manifest-line",
        "document",
        "a line of a manifest or of the standard input names no document",
        "correct the line, then hand the manifest in again",
    ),
    Reason(
        "engine-error",
        "reading",
        "the OCR engine failed on the page",
        "replay, or try another --engine; if it stays, report the file",
    ),
    Reason(
        "page-timeout",
        "reading",
        "a page took longer than --page-timeout, or its document's time was used up before it began",
        "raise --page-timeout or --document-timeout, then replay",
    ),
    Reason("extraction-incomplete", "reading", "the text was read, but a rule failed on it", _REPORT),
    Reason("exception", "reading", "something unforeseen went wrong while it was read", _REPORT),
    Reason(
        "worker-lost",
        "worker",
        "the process that read it died (a crash in a library, or something killed it), as often as --attempts allows",
        "replay, or try another --engine; if it stays, report it",
    ),
    Reason(
        "deadline",
        "worker",
        "it took longer than --document-timeout; its worker was killed",
        "raise --document-timeout, then replay",
    ),
    Reason(
        "memory-limit",
        "worker",
        "its worker grew above --worker-memory-limit and was killed",
        "raise --worker-memory-limit or lower --max-pixels, then replay",
    ),
    Reason("unpicklable-result", "worker", "its result could not be handed over by the worker", _REPORT),
    Reason("unpicklable-item", "worker", "it could not be handed to a worker", _REPORT),
    Reason("cancelled", "worker", "it was cancelled before it ended", "it was cancelled: replay it if you need it"),
)

ADVICE = MappingProxyType({reason.code: reason.advice for reason in REASONS})
"""What to do, by code."""

MEANING = MappingProxyType({reason.code: reason.meaning for reason in REASONS})
"""What it means, by code."""
