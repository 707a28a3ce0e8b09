"""The report of a run: ONE HTML file that needs no network, written card by card.

open the store -> gather insights -> choose the cards -> write head, panels, cards (a picture at a time), end
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from heapq import heappushpop
from importlib.resources import files
from pathlib import Path
from typing import Final

from headrace import __version__
from headrace.dashboard.cards import Comparison, card, page_of, priority, rotation_of
from headrace.dashboard.insights import Insights, entries_of, gather, latest_batch
from headrace.dashboard.markup import Html, join, tag
from headrace.dashboard.panels import overview, panels
from headrace.dashboard.thumbnails import Thumbnail, source_path, thumbnail
from headrace.documents.entry import Entry
from headrace.documents.status import EntryKind, Verdict
from headrace.storage.errors import UnknownBatch
from headrace.storage.sqlite import SqliteStore
from headrace.storage.store import ReadStore

CARDS_LIMIT: Final = 400
"""Cards on one page: with pictures of about 15 kB each this is 8 MB, which every browser opens."""


class NothingToReport(Exception):
    """The workspace has no batch yet."""


def write_report(
    workspace: Path,
    output: Path,
    *,
    batch_id: int | None = None,
    truth: Comparison | None = None,
    cards_limit: int = CARDS_LIMIT,
) -> Path:
    """Writes the report of a batch, finished or still running; the file is there whole or not at all.

    Memory does not grow with the batch: one entry and one picture at a time.

    Args:
        workspace: where the run keeps its state; only read.
        output: the HTML file; what was there is replaced.
        batch_id: which one; None for the latest.
        truth: what the documents are known to be, shown beside what was read.
        cards_limit: how many documents get a card; failures and those to be reviewed come first.

    Returns:
        The absolute path of the file.

    Raises:
        StoreError: there is no workspace, it cannot be read, or it has no such batch.
        NothingToReport: it has no batch at all.
        OSError: the file cannot be written; then nothing is left of it.
    """
    with SqliteStore.read(workspace) as store:
        batch = latest_batch(store) if batch_id is None else store.batch(batch_id)
        if batch is None:
            raise NothingToReport(f"{workspace} has no batch yet; start one with: headrace run SOURCE...")
        insights = gather(store, batch.batch_id)
        chosen = _choose(store, insights, cards_limit)
        parts = _page(store, insights, chosen, workspace, truth)
        return _write(output, parts)


def _choose(store: ReadStore, insights: Insights, limit: int) -> list[int]:
    """The vouchers that get a card, in order; the most urgent when there are too many."""
    kept: list[tuple[int, int]] = []  # a heap with the least urgent on top: (-priority, -voucher)
    for entry in entries_of(store, insights.batch.batch_id):
        if insights.last_voucher is None or entry.sequence > insights.last_voucher:
            break  # committed after the numbers were gathered
        rank = (-priority(entry), -entry.sequence)
        if len(kept) < limit:
            kept.append(rank)
            if len(kept) == limit:
                kept.sort()
        elif kept and rank > kept[0]:
            heappushpop(kept, rank)
    return sorted(-sequence for _, sequence in kept)


def _page(
    store: ReadStore, insights: Insights, chosen: list[int], workspace: Path, truth: Comparison | None
) -> Iterator[str]:
    style, script = _static("report.css"), _static("report.js")
    # Scripts and styles are allowed by their hash: whatever a document smuggles in would not run.
    policy = f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'"
    yield "<!doctype html>\n"
    yield '<html lang="en"><head>'
    yield tag("meta", charset="utf-8")
    yield tag("meta", http_equiv="Content-Security-Policy", content=policy)
    yield tag("meta", name="viewport", content="width=device-width, initial-scale=1")
    yield tag("meta", name="color-scheme", content="light dark")
    yield tag("title", f"headrace: batch {insights.batch.batch_id} of {insights.batch.book}")
    yield f"<style>{style}</style></head>\n<body>"
    yield overview(insights)
    yield panels(insights, truth.table if truth else ())
    yield _filters(insights, len(chosen))
    yield '<div class="cards">\n'
    for sequence in chosen:
        for entry in store.entries(batch_id=insights.batch.batch_id, after_sequence=sequence - 1, limit=1):
            yield card(entry, _picture(store, entry, workspace), truth) + "\n"
    if not chosen:
        yield tag("p", "No document has ended yet.", class_="empty")
    yield "</div></main>"
    yield tag("dialog", aria_label="The page, enlarged")
    yield tag("p", f"headrace {__version__}", class_="end")
    yield f"<script>{script}</script></body></html>\n"


def _picture(store: ReadStore, entry: Entry, workspace: Path) -> Thumbnail | str | None:
    if entry.kind is EntryKind.FAILURE:
        return None  # what could not be read there may be a danger here
    record = store.document(entry.document_id)
    if record is None:
        return "the document is not in the store"
    page = page_of(entry)
    source = source_path(record.document, workspace / "blobs")
    return thumbnail(source, entry.sha256, page, rotation_of(entry, page))


def _filters(insights: Insights, shown: int) -> Html:
    kinds, verdicts = insights.kinds, insights.verdicts
    ended = sum(kinds.values())
    counts = {
        "all": ("All", ended),
        "review": ("Needs review", verdicts.get(Verdict.NEEDS_REVIEW, 0) + verdicts.get(Verdict.REJECTED, 0)),
        "failed": ("Failed", kinds.get(EntryKind.FAILURE, 0)),
        "duplicate": ("Duplicates", kinds.get(EntryKind.DUPLICATE, 0)),
        "ok": ("Accepted", verdicts.get(Verdict.ACCEPTED, 0)),
    }
    buttons = [
        tag(
            "button",
            label,
            tag("b", f"{count:,}"),
            type="button",
            data_filter=name,
            aria_pressed="true" if name == "all" else "false",
        )
        for name, (label, count) in counts.items()
    ]
    bounded = None
    if shown < ended:
        bounded = tag("p", f"{shown:,} of {ended:,} documents: failed and needs review first.", class_="quiet bounded")
    return join(
        [
            tag("h2", "Documents", class_="section"),
            bounded,
            tag(
                "div",
                *buttons,
                tag("span", id="shown", class_="quiet", role="status"),
                tag(
                    "input", id="words", type="search", placeholder="Merchant, file, amount, code", aria_label="Filter"
                ),
                id="filters",
                hidden=True,  # without scripts there is nothing to press
            ),
        ]
    )


def _static(name: str) -> str:
    return files("headrace.dashboard").joinpath("static", name).read_text(encoding="utf-8")


def _hash(source: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"


def _write(output: Path, parts: Iterator[str]) -> Path:
    output = output.absolute()
    output.parent.mkdir(parents=True, exist_ok=True)
    beginning = output.with_name(f".{output.name}.{os.getpid()}.tmp")
    try:
        with beginning.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(parts)
        os.replace(beginning, output)
    finally:
        with suppress(FileNotFoundError):
            beginning.unlink()
    return output


__all__ = ["CARDS_LIMIT", "Comparison", "NothingToReport", "UnknownBatch", "write_report"]
