"""Reading one document: open, hash, decode, recognise. The main path of the package.

    path -> open_source -> digest -> open_pages
         -> page by page: decode -> turn upright -> bands -> recognise -> lines -> judge the paper -> DocumentText

A second look (`again`) reads some of the pages once more: restored, and with the engine's thorough way.

Time limits. Native code cannot be interrupted from inside, so three clocks work together. The parent's deadline kills
the worker, whatever it does. `page_timeout_s` is looked at where Python is in charge: after decoding a page and after
each band; a page that went over it is a page failure, even when it finished. `document_timeout_s` is looked at before
each page: pages not begun by then are page failures, and what was read is kept.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import BinaryIO

from headrace.documents.errors import DocumentError, PageTimeout
from headrace.documents.receipt import PageFailure
from headrace.documents.text import Box, PageText, group_lines
from headrace.ocr import media
from headrace.ocr.cascade import PageView
from headrace.ocr.engine import TRUNCATED_IMAGE, Effort, Engine, PageImage
from headrace.ocr.limits import ReadLimits

_BLOCK_BYTES = 1 << 20

Clock = Callable[[], float]
OnPage = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class SourceDigest:
    """What a file is, without decoding it.

    Attributes:
        sha256: of its bytes, in hex.
        size_bytes: how many there are.
        media_type: by its first bytes; `application/octet-stream` when it is of no kind that is read.
    """

    sha256: str
    size_bytes: int
    media_type: str


@dataclass(frozen=True, slots=True)
class DocumentText:
    """What was read from a document.

    Attributes:
        sha256: of its bytes, in hex.
        size_bytes: how many there were.
        media_type: by its content, never by its name.
        page_count: pages it has; 0 when the engine needs none.
        pages: the pages that could be read, in order.
        views: how each of `pages` was looked at.
        page_failures: the pages that could not, in order; never all of them, then the document fails.
        durations_ms: wall time by step: `read`, `decode`, `recognise`. Measurements, different on every run.
        observed: what was measured of the failed pages; may differ on every run, too.
    """

    sha256: str
    size_bytes: int
    media_type: str
    page_count: int
    pages: tuple[PageText, ...] = ()
    views: tuple[PageView, ...] = ()
    page_failures: tuple[PageFailure, ...] = ()
    durations_ms: dict[str, float] = field(default_factory=dict, compare=False)
    observed: tuple[str, ...] = field(default=(), compare=False)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was odd but stopped nothing, each with its page."""
        return tuple(f"page {page.number}: {warning}" for page in self.pages for warning in page.warnings)

    @property
    def partial(self) -> bool:
        """Whether something of the document is missing: a page, or the lower part of a truncated image."""
        return bool(self.page_failures) or any(TRUNCATED_IMAGE in page.warnings for page in self.pages)

    def with_pages(self, look: DocumentText) -> DocumentText:
        """This document with the pages of a second look in place of its own, and the time of both."""
        seen = {page.number: (page, view) for page, view in zip(look.pages, look.views, strict=True)}
        kept = [seen.get(page.number, (page, view)) for page, view in zip(self.pages, self.views, strict=True)]
        steps = {*self.durations_ms, *look.durations_ms}
        took_ms = {step: self.durations_ms.get(step, 0.0) + look.durations_ms.get(step, 0.0) for step in sorted(steps)}
        pages, views = (tuple(part) for part in zip(*kept, strict=True))
        return replace(self, pages=pages, views=views, durations_ms=took_ms)


def read_document(
    path: bytes | str,
    engine: Engine,
    limits: ReadLimits | None = None,
    *,
    again: Mapping[int, PageView] | None = None,
    clock: Clock = time.monotonic,
    on_page: OnPage | None = None,
) -> DocumentText:
    """Reads the text of one document. The file is read once for its hash, then decoded a page at a time.

    Args:
        path: as the operating system spells it; bytes need not be text.
        engine: made once per worker by `create_engine`.
        limits: of this document; the defaults when None.
        again: the pages to look at a second time, by number; the others are left out. None reads all a first time.
        clock: monotonic seconds.
        on_page: told how many pages are done, of how many: 0 before the first, then after each, whatever became of it.

    Raises:
        DocumentError: the document as a whole cannot be read, or none of its pages can: then the first page's error.
        MemoryError: it does not fit into what this process may have; the worker should be replaced.
    """
    limits = limits or ReadLimits()
    steps = _Steps(clock)
    document_ends = clock() + limits.document_timeout_s
    with media.open_source(path) as file:
        with steps.measure("read"):
            digest, head = _digest(file)
        if not engine.needs_pages:
            return DocumentText(digest.sha256, digest.size_bytes, digest.media_type, 0, durations_ms=steps.durations_ms)
        kind = media.require_media_type(head)
        file.seek(0)
        count, read, errors = _read_pages(file, kind, engine, limits, steps, document_ends, again, on_page)
    if not read:
        raise errors[0]
    failures = tuple(PageFailure(page=e.page or 1, code=e.code, detail=e.detail) for e in errors)
    observed = tuple(e.observed for e in errors if e.observed)
    pages, views = (tuple(part) for part in zip(*read, strict=True))
    return DocumentText(
        digest.sha256, digest.size_bytes, kind, count, pages, views, failures, steps.durations_ms, observed
    )


def digest_source(path: bytes | str) -> SourceDigest:
    """Hashes a file in bounded memory; for those who need to say which bytes failed.

    Raises:
        UnreadableSource: see `media.open_source`.
        EmptyFile: it has no bytes.
    """
    with media.open_source(path) as file:
        return _digest(file)[0]


def _digest(file: BinaryIO) -> tuple[SourceDigest, bytes]:
    sha256 = hashlib.sha256()
    head = b""
    size = 0
    while block := file.read(_BLOCK_BYTES):
        head = head or block[: media.HEAD_BYTES]
        sha256.update(block)
        size += len(block)
    return SourceDigest(sha256.hexdigest(), size, media.media_type(head)), head


def _read_pages(
    file: BinaryIO,
    kind: str,
    engine: Engine,
    limits: ReadLimits,
    steps: _Steps,
    document_ends: float,
    again: Mapping[int, PageView] | None,
    on_page: OnPage | None,
) -> tuple[int, list[tuple[PageText, PageView]], list[DocumentError]]:
    """The number of pages, those that were read and how, and why the others were not."""
    from headrace.ocr.pages import open_pages  # image libraries: never loaded for an engine that needs no pages

    read: list[tuple[PageText, PageView]] = []
    errors: list[DocumentError] = []
    with steps.measure("decode"), open_pages(file, kind, limits) as pages:
        count = pages.count
        wanted = range(1, count + 1) if again is None else sorted(again)
        for number in wanted:
            if on_page is not None:
                on_page(number - 1, count)
            if steps.clock() >= document_ends:
                detail = "not begun: the pages before it used up the document's time; raise --document-timeout"
                seen = f"pages {number} to {count} not begun: {limits.document_timeout_s:g} s were used up"
                errors.append(PageTimeout(detail, page=number, observed=seen))
                errors += [PageTimeout(detail, page=left) for left in wanted if left > number]
                break
            page_clock = _PageClock(number, limits.page_timeout_s, steps.clock)
            try:
                item = pages.read(number)
                if isinstance(item, DocumentError):
                    raise item
                page_clock.check()
                if isinstance(item, PageText):
                    read.append((item, PageView(number)))
                else:
                    read.append(_recognise(item, engine, page_clock, steps, again[number] if again else None))
            except DocumentError as error:
                errors.append(error)
        if on_page is not None:
            on_page(count, count)
    return count, read, errors


def _recognise(
    image: PageImage, engine: Engine, page_clock: _PageClock, steps: _Steps, second: PageView | None
) -> tuple[PageText, PageView]:
    """The lines of a page, upright, and how it was looked at; a tall page is shown to the engine in bands."""
    from headrace.ocr.bands import cut, join, on_page
    from headrace.ocr.fingerprint import fingerprint
    from headrace.ocr.restore import flatten, judge
    from headrace.ocr.upright import find_turn, turned

    boxes: list[Box] = []
    above_ends = 0.0
    with steps.measure("recognise"):
        turn = second.turn if second else find_turn(image, engine)
        page_clock.check()
        image = turned(image, turn)
        height, width = image.pixels.shape[:2]
        for band, part in cut(image):
            if second:
                part = replace(part, pixels=flatten(part.pixels))
            found = on_page(engine.recognise(part, Effort.THOROUGH if second else Effort.USUAL), band, height)
            page_clock.check()
            boxes = join(boxes, found, band[0] / height, above_ends) if band[0] else found
            above_ends = band[1] / height
        paper, picture = (None, None) if second else (judge(image.pixels, boxes), fingerprint(image.pixels))
    lines = group_lines(boxes, aspect=width / height)
    text = PageText(image.number, image.width_px, image.height_px, lines, warnings=image.warnings)
    return text, second or PageView(
        image.number, image.orientation, turn, paper.trouble if paper else "", picture=picture
    )


class _PageClock:
    """The time limit of one page."""

    def __init__(self, page: int, timeout_s: float, clock: Clock) -> None:
        self._page = page
        self._timeout_s = timeout_s
        self._clock = clock
        self._began = clock()

    def check(self) -> None:
        """Raises `PageTimeout` once the limit has passed."""
        took = self._clock() - self._began
        if took > self._timeout_s:
            seen = f"page {self._page} took {took:.1f} s, the limit is {self._timeout_s:g} s"
            detail = "reading the page took longer than one page may; raise --page-timeout"
            raise PageTimeout(detail, page=self._page, observed=seen)


class _Steps:
    """Adds up how long each step took; a step inside another is taken out of the outer one."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.durations_ms: dict[str, float] = {}
        self._inner_ms = 0.0

    @contextmanager
    def measure(self, step: str) -> Iterator[None]:
        """Counts the time until the end of the block for `step`."""
        began, outer_ms, self._inner_ms = self.clock(), self._inner_ms, 0.0
        try:
            yield
        finally:
            took_ms = (self.clock() - began) * 1000
            self.durations_ms[step] = self.durations_ms.get(step, 0.0) + took_ms - self._inner_ms
            self._inner_ms = outer_ms + took_ms
