"""Why a document ends without a receipt.

    DocumentError                     a document's own end; carries code, stage, page, retriable
      EmptyFile                       nothing to read
      UnreadableSource                the path is gone, is no regular file, or may not be read
      SourceUrlForbidden              an address that headrace does not fetch (http, s3, another host)
      BadManifestLine                 a line of a manifest that names no document
      PayloadTooLarge                 more bytes than one document may have
      UnsupportedMediaType            not a kind of file we read, whatever its name says
      CorruptDocument                 the kind is known, the content is broken
      EncryptedDocument               needs a password
      ImageTooLarge                   more pixels than the limit (read from the header)
      TooManyPages                    more pages than the limit
      EngineError                     the OCR engine failed on this page
      PageTimeout                     one page took longer than its limit
      ExtractionIncomplete            the fields could not be worked out (a bug in a rule: the text is kept)

What the executor sees from outside (a worker that died, hung or grew) is a code too, but no exception: nothing in the
worker lived to raise it.

A failure goes into the ledger, where everything is the same on every rerun: so its `detail` never holds what was
measured. That is `observed`, which is kept beside the entry.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

WORKER_LOST = "worker-lost"
DEADLINE = "deadline"
MEMORY_LIMIT = "memory-limit"
UNPICKLABLE_RESULT = "unpicklable-result"
ENGINE_ERROR = "engine-error"
CANCELLED = "cancelled"

OBSERVED_CHARACTERS = 400
"""How much is kept of what a library said about a failure."""


@dataclass(frozen=True, slots=True)
class DocumentFailure:
    """A document's failure as data: what clients, the ledger and the dead letters show.

    Attributes:
        code: the stable, hyphenated name of the reason (`corrupt-document`, `worker-lost`, ...).
        stage: where it happened: `read`, `decode`, `recognise`, `extract`, `execute`.
        detail: one sentence for a person: what, where, and what to do; the same on every rerun.
        page: the page it happened on, from 1; None when it is about the whole document.
        retriable: whether the same bytes could succeed when run again.
    """

    code: str
    stage: str
    detail: str
    page: int | None = None
    retriable: bool = False

    def as_dict(self) -> dict[str, Any]:
        """The failure as plain JSON types, in a fixed order of keys."""
        return asdict(self)


class DocumentError(Exception):
    """One document cannot be read; it costs only itself.

    Args:
        detail: what is wrong and what to do next, without anything that was measured.
        page: where, from 1.
        observed: what was measured, or what a library said about it: may differ from run to run.
    """

    code: ClassVar[str] = ENGINE_ERROR
    stage: ClassVar[str] = "decode"
    retriable: ClassVar[bool] = False

    def __init__(self, detail: str, *, page: int | None = None, observed: str = "") -> None:
        super().__init__(detail)
        self.detail = detail
        self.page = page
        self.observed = observed[:OBSERVED_CHARACTERS]

    def failure(self) -> DocumentFailure:
        """This error as data."""
        return DocumentFailure(self.code, self.stage, self.detail, self.page, self.retriable)

    def __reduce__(self) -> tuple[Any, ...]:
        # Keyword arguments do not survive the default pickling of exceptions, and these cross process borders.
        return _rebuild, (type(self), self.detail, self.page, self.observed)


def _rebuild(kind: type[DocumentError], detail: str, page: int | None, observed: str) -> DocumentError:
    return kind(detail, page=page, observed=observed)


class EmptyFile(DocumentError):
    """The file has no bytes."""

    code = "empty-file"
    stage = "read"


class UnreadableSource(DocumentError):
    """The path is gone, is not a regular file, or may not be read."""

    code = "unreadable-source"
    stage = "read"
    retriable = True


class SourceUrlForbidden(DocumentError):
    """The document is named by an address that headrace does not fetch."""

    code = "source-url-forbidden"
    stage = "read"


class BadManifestLine(DocumentError):
    """A line of a manifest that names no document; the lines after it are read as usual."""

    code = "bad-manifest-line"
    stage = "read"


class PayloadTooLarge(DocumentError):
    """The document has more bytes than the limit; decided before or while its bytes are copied."""

    code = "payload-too-large"
    stage = "read"


class UnsupportedMediaType(DocumentError):
    """The first bytes are of no kind that headrace reads."""

    code = "unsupported-media-type"


class CorruptDocument(DocumentError):
    """The kind of file is known, but its content is broken."""

    code = "corrupt-document"


class EncryptedDocument(DocumentError):
    """The document opens only with a password."""

    code = "encrypted-document"


class ImageTooLarge(DocumentError):
    """A page has more pixels than the limit; decided from the header, before anything is decoded."""

    code = "image-too-large"


class TooManyPages(DocumentError):
    """The document has more pages than the limit."""

    code = "too-many-pages"


class EngineError(DocumentError):
    """The OCR engine failed on a page."""

    code = ENGINE_ERROR
    stage = "recognise"
    retriable = True


class PageTimeout(DocumentError):
    """One page took longer than its limit."""

    code = "page-timeout"
    stage = "recognise"
    retriable = True


class ExtractionIncomplete(DocumentError):
    """The text was read, but the fields could not be worked out from it."""

    code = "extraction-incomplete"
    stage = "extract"
