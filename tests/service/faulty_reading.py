"""A worker that does what the name of a document says: `hang`, `die`, `wait-for PATH`; else it reads as always."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.documents.document import Document
from headrace.execution import WorkerPool
from headrace.ingest.reading import ReadDocuments, Reading


@dataclass(frozen=True)
class FaultyReading:
    """In place of `ReadDocuments`."""

    real: ReadDocuments

    def __call__(self) -> Callable[[Document], Reading]:
        read = self.real()

        def read_or_not(document: Document) -> Reading:
            word, _, rest = document.uri.partition(" ")
            if word == "hang":
                time.sleep(3600)
            elif word == "die":
                os._exit(3)
            elif word == "wait-for":
                while not os.path.exists(rest):
                    time.sleep(0.005)
            elif word == "slow":
                time.sleep(float(rest))
            return read(document)

        return read_or_not


def faulty_pool(settings: Any, bounds: Any, today: Any) -> WorkerPool[Document, Reading]:
    """In place of `worker_pool`."""
    limits = {"max_pixels": settings.max_pixels, "max_pages": settings.max_pages, "page_timeout_s": 60.0}
    limits |= {"max_bytes": None, "document_timeout_s": 60.0}
    real = ReadDocuments(settings.engine, limits, settings.max_document_bytes, today)
    return WorkerPool(FaultyReading(real), workers=bounds.workers)
