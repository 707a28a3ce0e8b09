from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from headrace.flow import Permit
from headrace.service.keeping import Arrival, Keeping
from headrace.service.spool import Spool
from headrace.service.views import Submission
from headrace.storage.blobs import Blobs
from headrace.storage.sql_accept import NewDocument
from headrace.storage.sqlite import SqliteStore

CONTENT = b"\xff\xd8\xff" + b"a receipt" * 30


@pytest.mark.parametrize("large", [False, True], ids=["in the log", "a file"])
@pytest.mark.parametrize("order", ["refused first", "kept between", "accepted"])
def test_bytes_that_another_arrival_needs_stay_when_one_with_the_same_bytes_is_taken_back(
    tmp_path: Path, order: str, large: bool
) -> None:
    async def main() -> None:
        blobs = Blobs(tmp_path / "blobs")
        spool = Spool(blobs, limit_bytes=1 << 20, buffer_bytes=0 if large else 1 << 20, min_free_bytes=0)
        with SqliteStore.open(tmp_path) as store:
            keeping = Keeping(spool, blobs, store)
            one, two = await _arrived(spool), await _arrived(spool)
            sha256 = one.spooled.sha256 or _sealed(one)
            assert keeping.keep_all([one]) == [None]
            if order == "refused first":
                keeping.discard_all([one.spooled])
                assert not _is_kept(blobs, sha256)
                assert keeping.keep_all([two]) == [None]
            else:
                assert keeping.keep_all([two]) == [None]
                if order == "accepted":
                    _commit(store, sha256)
                    keeping.has_row(two.spooled)
                keeping.discard_all([one.spooled])
            assert _is_kept(blobs, sha256)
            if order == "accepted":
                assert blobs.total_bytes == len(CONTENT)
            else:
                keeping.discard_all([two.spooled])
                assert not _is_kept(blobs, sha256)
                assert blobs.total_bytes == 0
        await spool.aclose()

    asyncio.run(main())


async def _arrived(spool: Spool) -> Arrival:
    async def body() -> AsyncIterator[bytes]:
        yield CONTENT

    spooled = await spool.receive(body(), declared_bytes=len(CONTENT))
    return Arrival(spooled, cast(Submission, None), cast(Permit, None))  # neither matters here


def _sealed(arrival: Arrival) -> str:
    arrival.spooled.seal()
    return arrival.spooled.sha256


def _is_kept(blobs: Blobs, sha256: str) -> bool:
    return sha256 in blobs.arrivals or blobs.path(sha256).exists()


def _commit(store: SqliteStore, sha256: str) -> None:
    new = [NewDocument("ada", 0, sha256, len(CONTENT))]
    store.accept(new, book="main", today="2026-12-01", settings_json="{}", key_age_s=60.0)
