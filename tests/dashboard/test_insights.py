"""Insights say what the ledger says, whatever the batch holds, in bounded memory."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from made_workspace import FAILURE, Fill, Made

from headrace.dashboard import insights as module
from headrace.dashboard.insights import OTHERS, Ceilings, Insights, gather, latest_batch
from headrace.documents.status import EntryKind, Verdict
from headrace.storage.errors import UnknownBatch
from headrace.storage.sqlite import SqliteStore


def look(fill: Fill, documents: list[Made], **more: int) -> Insights:
    with SqliteStore.read(fill(documents, **more)) as store:
        batch = latest_batch(store)
        assert batch is not None
        return gather(store, batch.batch_id)


def test_every_document_is_counted_once_under_its_end(fill: Fill) -> None:
    found = look(
        fill,
        [
            Made("a.jpg", data=b"same"),
            Made("b.jpg", data=b"same"),
            Made("c.jpg", failure=FAILURE),
            Made("d.jpg", total=None),
        ],
        left=3,
    )
    assert found.kinds == {EntryKind.RECEIPT: 2, EntryKind.DUPLICATE: 1, EntryKind.FAILURE: 1}
    assert found.verdicts == {Verdict.ACCEPTED: 1, Verdict.DUPLICATE: 1, Verdict.NEEDS_REVIEW: 1}
    assert found.failures == {"corrupt-document": 1}
    assert found.accounts.accepted == 7
    assert found.accounts.in_flight == 3
    assert found.accounts.holds
    assert found.in_order
    assert (found.first_voucher, found.last_voucher) == (1, 4)
    assert found.chain.holds
    assert found.chain.count == 4


def test_money_is_summed_exactly_by_currency_month_and_merchant_without_duplicates(fill: Fill) -> None:
    found = look(
        fill,
        [
            Made("a.jpg", total="0.10", date="2026-03-01", merchant="A", data=b"1"),
            Made("b.jpg", total="0.20", date="2026-03-31", merchant="A", data=b"2"),
            Made("c.jpg", total="0.70", date="2026-04-01", merchant="B", data=b"3"),
            Made("copy.jpg", data=b"3"),
            Made("d.jpg", total="500", currency="JPY", merchant="C", data=b"4"),
            Made("e.jpg", total="1.00", currency=None, date=None, data=b"5"),
        ],
    )
    euros = found.spend["EUR"]
    assert euros.total == Decimal("1.00")
    assert euros.count == 3
    assert euros.months == {"2026-03": Decimal("0.30"), "2026-04": Decimal("0.70")}
    assert euros.top_merchants() == [("B", Decimal("0.70"), 1), ("A", Decimal("0.30"), 2)]
    assert found.spend["JPY"].total == 500
    assert found.spend[""].months == {"": Decimal("1.00")}


def test_names_months_and_currencies_beyond_the_limit_are_summed_up_not_kept(
    fill: Fill, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MERCHANTS_LIMIT", 3)
    monkeypatch.setattr(module, "MONTHS_LIMIT", 2)
    documents = [Made(f"{n}.jpg", merchant=f"M{n}", date=f"20{n:02}-01-01", total="1") for n in range(10, 30)]
    spend = look(fill, documents).spend["EUR"]
    assert spend.total == 20
    assert len(spend.merchants) == 4
    assert spend.merchants[OTHERS] == (Decimal(17), 17)
    assert spend.months[OTHERS] == 18
    assert OTHERS not in [name for name, _, _ in spend.top_merchants(10)]


def test_engine_and_ceilings_come_from_the_batch(fill: Fill) -> None:
    found = look(fill, [Made("a.jpg")])
    assert found.engine == "null"
    assert found.ceilings == Ceilings(rss_bytes=900 << 20, window=16, workers=2)
    assert found.peak_rss_bytes == 104 << 20
    assert [slow.elapsed_s for slow in found.slowest] == [1.5]


@pytest.mark.parametrize(
    "settings", ["", "[]", "{", '{"bounds": 3}', '{"bounds": {"window": "8"}}', '{"bounds": {"window": true}}']
)
def test_settings_of_somebody_else_say_nothing_and_break_nothing(settings: str) -> None:
    assert module._settings(settings) == ("", Ceilings())


def test_a_changed_entry_is_found_and_named(fill: Fill) -> None:
    workspace = fill([Made(f"{n}.jpg", data=bytes([n])) for n in range(3)])
    import sqlite3

    with sqlite3.connect(workspace / "headrace.db") as database:
        content = json.loads(database.execute("select content from entries where sequence = 2").fetchone()[0])
        content["uri"] = "forged.jpg"
        database.execute("update entries set content = ? where sequence = 2", (json.dumps(content).encode(),))
    database.close()
    with SqliteStore.read(workspace) as store:
        found = gather(store, 1)
    assert not found.chain.holds
    assert found.chain.fault is not None
    assert found.chain.fault.voucher == "main-000002"


def test_an_unknown_batch_is_an_error_and_an_empty_workspace_has_none(fill: Fill, tmp_path) -> None:  # type: ignore[no-untyped-def]
    with SqliteStore.read(fill([Made("a.jpg")])) as store, pytest.raises(UnknownBatch):
        gather(store, 99)
    with SqliteStore.open(tmp_path / "empty") as store:
        assert latest_batch(store) is None


def test_what_is_worth_a_look_is_told_for_the_batch_against_the_whole_book(fill: Fill) -> None:
    usual = [Made(f"{n}.jpg", total=f"20.{n}1", date=f"2026-03-0{n}", data=bytes([n])) for n in range(2, 7)]
    found = look(fill, [*usual, Made("odd.jpg", total="100.00", date="2026-03-06", data=b"odd")])
    assert [(a.sequence, a.kind) for a in found.anomalies] == [(6, "round-sum"), (6, "same-day")]
    assert found.anomaly_counts == {"round-sum": 1, "same-day": 1}
    assert found.verdicts == {Verdict.ACCEPTED: 6}
    assert found.first_digits.conforms is None
