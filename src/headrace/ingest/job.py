"""Everything one run works with, in one place; the steps in `pipeline` take it as their argument."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.documents.document import Document
from headrace.execution import WorkerPool
from headrace.ingest.bounds import Bounds
from headrace.ingest.database import DatabaseThread
from headrace.ingest.listing import Listing
from headrace.ingest.monitor import Monitor
from headrace.ingest.output import JsonLines
from headrace.ingest.reading import Reading
from headrace.ingest.settings import RunSettings
from headrace.ledger import BookWriter
from headrace.storage.blobs import Blobs
from headrace.storage.store import Batch


@dataclass(frozen=True, slots=True)
class Job:
    """One run of one batch. Who owns what: the runtime opens and closes all of these, the steps only use them."""

    settings: RunSettings
    bounds: Bounds
    batch: Batch
    database: DatabaseThread
    blobs: Blobs
    listing: Listing
    pool: WorkerPool[Document, Reading]
    writer: BookWriter
    output: JsonLines
    monitor: Monitor
