"""Where an output stands, and writing what it lacks: after a crash between commit and write, or in another output."""

from __future__ import annotations

import heapq
import json
from functools import partial
from typing import NamedTuple

from headrace.documents.entry import Entry
from headrace.ingest.daemon_threads import in_daemon_thread
from headrace.ingest.database import DatabaseThread
from headrace.ingest.output import JsonLines, OutputError
from headrace.storage.store import REPLAY_KEY, Batch, Store

_PAGE = 256


class Stand(NamedTuple):
    """Where an output stands: the voucher number of its last entry, 0 without one, and the key of that one's batch."""

    sequence: int = 0
    key: str = ""


def stands_at(output: JsonLines, key: str, store: Store) -> Stand:
    """Where the output stands, when entries of this key may follow.

    An output belongs to its sources. The lines of replayed documents may be in any output of their ledger: it is where
    the failure was, or one that somebody chose for them.

    Raises:
        OutputError: the output is not ours, or its last entry is of another ledger, or of other sources.
    """
    last = output.last_entry(partial(_begins_a_line, store, key))
    if last is None:
        return Stand()
    book, sequence, entry_hash = last
    found = store.entries(book=book, after_sequence=sequence - 1, limit=1)
    if found and found[0].entry_hash == entry_hash:
        stand = Stand(sequence, store.batch(found[0].batch_id).key)
        if stand.key == key or any(one.startswith(REPLAY_KEY) for one in (stand.key, key)):
            return stand
    raise OutputError(
        f"{output.target} ends with an entry of another ledger or of other sources; choose another -o, or --overwrite"
    )


def _begins_a_line(store: Store, key: str, torn: bytes) -> bool:
    """Whether these bytes are how the first line of these sources' output begins, torn by a crash."""
    firsts = (store.entries(batch_id=batch.batch_id, limit=1) for batch in store.batches(key=key))
    return any(first[0].json_line().startswith(torn) for first in firsts if first)


async def catch_up(output: JsonLines, batch: Batch, stand: Stand, database: DatabaseThread) -> None:
    """Writes the entries that are committed and not yet in the output, in the order of their vouchers.

    They are those of the batch's sources, of what the output ends with, and of the batch itself.
    """
    behind = await database.call(partial(_behind, batch, stand))
    while behind and (entries := await database.call(partial(_next_entries, behind))):
        await in_daemon_thread(partial(output.write, entries))


def _behind(batch: Batch, stand: Stand, store: Store) -> list[tuple[int, int]]:
    """A heap of (next voucher, batch) for the batches whose entries an output lacks."""
    # A list on standard input is another list each time, though it has the same name.
    alone = batch.key.startswith(REPLAY_KEY) or "stdin" in json.loads(batch.settings_json).get("sources", ())
    keys = {stand.key} - {""} if alone else {stand.key, batch.key}
    of_output = {batch.batch_id} | {its.batch_id for key in keys for its in store.batches(key=key)}
    heads = ((store.entries(batch_id=i, after_sequence=stand.sequence, limit=1), i) for i in of_output)
    return sorted((first[0].sequence, batch_id) for first, batch_id in heads if first)


def _next_entries(behind: list[tuple[int, int]], store: Store) -> list[Entry]:
    """The next page of entries in the order of vouchers: of the first batch, up to where another has one between."""
    sequence, batch_id = heapq.heappop(behind)
    page = store.entries(batch_id=batch_id, after_sequence=sequence - 1, limit=_PAGE + 1)
    end = behind[0][0] if behind else page[-1].sequence + 1
    entries = [entry for entry in page[:_PAGE] if entry.sequence < end]
    if len(entries) < len(page):
        heapq.heappush(behind, (page[len(entries)].sequence, batch_id))
    return entries
