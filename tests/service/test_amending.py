from __future__ import annotations

import asyncio
import dataclasses
import hashlib
from pathlib import Path

import pytest
from service_support import DEADLINE_S, done, jpeg, send, serving, settings_for

from headrace.documents.status import EntryKind
from headrace.ledger import verify
from headrace.service.reception import EditConflict, InvalidCorrection, NotFound, NotReviewable
from headrace.storage.sqlite import SqliteStore


def test_a_correction_is_a_new_entry_and_the_outcome_stays_as_it_was(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path / "ws") as reception:
            accepted = await send(reception, jpeg(1), "acme")
            before = await done(reception, accepted)
            assert before.review == "needs_review"
            changes = {"merchant": {"name": {"value": "Café Müller"}}, "payable_amount": {"value": "12.50"}}
            with pytest.raises(EditConflict) as conflict:
                await reception.correct("acme", accepted.document_id, changes, before.version + 7, "eva")
            assert conflict.value.version == before.version
            after = await reception.correct("acme", accepted.document_id, changes, before.version, "eva")
            assert after.receipt is not None
            assert after.receipt["merchant"]["name"]["value"] == "Café Müller"
            assert after.receipt["payable_amount"]["value"] == "12.50"
            assert after.version > before.version
            assert after.entry is not None
            assert after.entry.content == before.entry.content
            assert (after.amendments[0].who, after.amendments[0].changes) == ("eva", changes)
            with pytest.raises(EditConflict):
                await reception.correct("acme", accepted.document_id, changes, before.version, "max")
            entries = await reception.ledger()
            assert [entry.kind for entry in entries] == [EntryKind.RECEIPT, EntryKind.CORRECTION]
            assert entries[1].record()["amends"] == "main-000001"
            assert entries[1].record()["changes"] == changes
            assert await reception.results("acme", before.batch_id) == entries[:1]
            assert (await reception.events(0))[-1].kind == "document.corrected"

    asyncio.run(main())
    with SqliteStore.read(tmp_path / "ws") as store:
        entries = store.entries(book="main")
        assert verify(entries, store.books()[0]).holds
        changed = dataclasses.replace(entries[1], content=entries[1].content.replace(b"12.50", b"92.50"))
        assert not verify([entries[0], changed], store.books()[0]).holds


def test_a_correction_that_would_make_no_receipt_is_refused_with_the_place(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path / "ws") as reception:
            accepted = await send(reception, jpeg(1))
            view = await done(reception, accepted)
            for changes, pointer in (
                ({"payable_amount": {"value": "much"}}, "/payable_amount/value"),
                ({"no_such_field": 1}, "/no_such_field"),
                ({"sha256": "0"}, "/sha256"),
                ({}, ""),
            ):
                with pytest.raises(InvalidCorrection) as refused:
                    await reception.correct(None, accepted.document_id, changes, view.version, "eva")
                assert refused.value.errors[0][0].startswith(pointer)
            assert len(await reception.ledger()) == 1

    asyncio.run(main())


def test_a_review_moves_the_counters_and_the_last_word_counts(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path / "ws") as reception:
            accepted = await send(reception, jpeg(1), "acme")
            await done(reception, accepted)

            async def counts() -> tuple[int, int]:
                batch = await reception.batch("acme", accepted.batch_id)
                assert batch is not None
                assert batch.accounts.holds
                return batch.accounts.needs_review, batch.accounts.rejected

            assert await counts() == (1, 0)
            rejected = await reception.reject("acme", accepted.document_id, "eva", "private")
            assert (rejected.review, await counts()) == ("rejected", (0, 1))
            approved = await reception.approve("acme", accepted.document_id, "max", if_match=rejected.version)
            assert (approved.review, await counts()) == ("approved", (0, 0))
            assert [one.note for one in approved.amendments] == ["private", ""]
            assert approved.state == "succeeded"

    asyncio.run(main())


def test_only_a_receipt_of_ones_own_can_be_reviewed(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path / "ws") as reception:
            accepted = await send(reception, jpeg(1), "acme")
            await done(reception, accepted)
            with pytest.raises(NotFound):
                await reception.approve("other", accepted.document_id, "eva")
            duplicate = await send(reception, jpeg(1), "acme", idempotency_key="again")
            await done(reception, duplicate)
            with pytest.raises(NotReviewable):
                await reception.approve("acme", duplicate.document_id, "eva")
            with pytest.raises(NotFound):
                await reception.reject(None, "d" + "0" * 20, "eva")

    asyncio.run(main())


def test_many_amendments_at_once_follow_each_other_in_the_chain(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path / "ws") as reception:
            sent = [await send(reception, jpeg(n)) for n in range(20)]
            for one in sent:
                await done(reception, one)
            await asyncio.gather(*[reception.approve(None, one.document_id, "eva") for one in sent])
            more = asyncio.gather(*[send(reception, jpeg(f"more {n}")) for n in range(20)])
            await asyncio.gather(*[reception.reject(None, one.document_id, "eva") for one in sent])
            for one in await more:
                assert await reception.wait_for(one.document_id, DEADLINE_S)

    asyncio.run(main())
    with SqliteStore.read(tmp_path / "ws") as store:
        entries = store.entries(book="main")
        assert len(entries) == 80
        assert verify(entries, store.books()[0]).holds


def test_a_proof_can_be_checked_with_two_hashes(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path / "ws") as reception:
            for n in range(3):
                await done(reception, await send(reception, jpeg(n)))
            proof = await reception.proof(2)
            assert proof is not None

            def sealed(prev: str, content: bytes) -> str:
                return hashlib.sha256(prev.encode() + b"\n" + content).hexdigest()

            assert sealed(proof.entry.prev_hash, proof.entry.content) == proof.entry.entry_hash
            assert proof.next_content is not None
            assert sealed(proof.entry.entry_hash, proof.next_content) == proof.next_hash
            last = await reception.proof(3)
            assert last is not None
            assert last.next_hash is None
            assert last.head.entry_hash == last.entry.entry_hash == proof.next_hash
            assert await reception.proof(4) is None
            assert await reception.proof(1, "no such book") is None

    asyncio.run(main())
    assert settings_for(tmp_path / "ws").book == "main"
