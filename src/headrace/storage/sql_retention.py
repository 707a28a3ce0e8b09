"""Which originals of the service nobody needs any more, in SQL."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Select, func, literal_column, select

from headrace.storage.sql import SqlPart
from headrace.storage.tables import batches, dead_letters, submissions

_ENDED = 2


class SqlRetention(SqlPart):
    """Looks through the documents of the service by their bytes, a page at a time."""

    def outdated_bytes(self, after: str, before: float, limit: int) -> tuple[list[str], str]:
        """Looks at the next digests: which of them are only of documents that have their entries, all accepted earlier.

        Dead letters that were not run again need theirs.

        Args:
            after: the digest (hex) behind which to look; "" begins.
            before: Unix time in seconds.
            limit: how many digests are looked at.

        Returns:
            The outdated ones, and the last one that was looked at; "" when it was the last of all.
        """
        look = (
            select(submissions.c.sha256, func.max(submissions.c.accepted_at), func.min(submissions.c.lease))
            .where(submissions.c.sha256 > bytes.fromhex(after))
            .group_by(submissions.c.sha256)
            .order_by(submissions.c.sha256)
            .limit(limit)
        )
        with self._transaction() as connection:
            rows = connection.execute(look).all()
            old = [digest.hex() for digest, newest, lease in rows if newest < before and lease >= _ENDED]
            letters = select(dead_letters.c.blob_sha256).where(
                dead_letters.c.blob_sha256.in_(old), dead_letters.c.replayed_in.is_(None)
            )
            needed = set(connection.scalars(letters)) if old else set()
        last = rows[-1][0].hex() if len(rows) == limit else ""
        return [sha256 for sha256 in old if sha256 not in needed], last

    def has_unfinished_run(self) -> bool:
        """Whether `run` or `dead replay` left documents that are still to be read; they may need any of the bytes."""
        of_service = select(submissions.c.batch_id).where(submissions.c.batch_id == batches.c.id)
        left = batches.c.in_flight > 0
        unfinished: Select[Any] = select(literal_column("1")).where(left, ~of_service.exists()).limit(1)
        with self._transaction() as connection:
            return connection.scalar(unfinished) is not None
