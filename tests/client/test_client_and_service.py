"""The client against the real service, in a process of its own, over real sockets."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from drawn_paper import png
from service_process import ServiceProcess, Wire, until

from headrace.client import (
    AsyncClient,
    Client,
    ClientError,
    Conflict,
    DeadlinePassed,
    NotAllowed,
    NotFound,
    Rejected,
    Upload,
)

_numbers = itertools.count(1)


def fresh(count: int, size_bytes: int = 0) -> list[Upload]:
    """Documents that no other test has handed in."""
    return [Upload(png(f"{next(_numbers)} of a test", size_bytes), f"{n}.png") for n in range(count)]


@pytest.fixture
def client(service: ServiceProcess) -> Iterator[Client]:
    with Client(service.url, deadline_s=60) as client:
        yield client


def test_a_document_is_handed_in_waited_for_and_read(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "hr_Straße 7%.png"  # looks like a key, and has what must be escaped
    path.write_bytes(png("a document on disk", 700_000))
    document = client.submit(path)
    assert (document.fields["filename"], document.fields["size_bytes"]) == (path.name, 700_000)
    ended = client.wait(document)
    assert ended.done
    assert not document.done
    assert ended.etag
    assert client.receipt(document.document_id) == ended.receipt != None  # noqa: E711  # both, in one look
    assert client.wait(ended) is ended


def test_your_own_id_of_a_document_is_kept_whatever_it_looks_like(client: Client) -> None:
    (upload,) = fresh(1)
    document = client.submit(Upload(upload.content, "hr_2026.png", external_id="hr_2026/17 & Söhne"))
    assert client.document(document.document_id).fields["external_id"] == "hr_2026/17 & Söhne"


def test_the_service_can_be_asked_to_wait(client: Client) -> None:
    (upload,) = fresh(1)
    assert client.submit(upload, wait_s=20).done


def test_what_is_no_document_is_rejected_with_the_reason(client: Client) -> None:
    with pytest.raises(Rejected, match="empty-file"):
        client.submit(b"")
    with pytest.raises(Rejected, match="unsupported-media-type"):
        client.submit(b"a letter to grandmother")
    with pytest.raises(NotFound):
        client.document("d00000000000000000000")
    with pytest.raises(FileNotFoundError):
        client.submit("/nowhere/at/all.png")


def test_the_same_key_gives_the_same_document_and_never_another(client: Client) -> None:
    upload, other = fresh(2)
    first = client.submit(upload, key="order 66")
    again = client.submit(upload, key="order 66")
    assert (again.document_id, again.replayed, first.replayed) == (first.document_id, True, False)
    with pytest.raises(Rejected, match="idempotency-key-mismatch"):
        client.submit(other, key="order 66")


def test_a_batch_keeps_its_order_and_says_what_was_not_taken(client: Client) -> None:
    given = [*fresh(10), Upload(b"no image", "letter.png"), *fresh(10)]
    submitted = client.submit_many(given)
    assert (submitted.given, submitted.sent, submitted.refused) == (21, 20, 1)
    assert [verdict.name for verdict in submitted.refusals] == ["letter.png"]
    results = list(client.results(submitted.batch.batch_id))
    assert [result.position for result in results] == list(range(1, 21))
    assert [result.name for result in results] == [f"{n}.png" for n in range(10)] * 2
    assert client.batch(submitted.batch.batch_id).finished
    assert [r.position for r in client.results(submitted.batch.batch_id, after=18)] == [19, 20]


def test_many_at_once_are_one_batch_with_each_exactly_once(client: Client) -> None:
    given = fresh(60, size_bytes=30_000)
    submitted = client.submit_many(given, in_order=False)
    names = [result.name for result in client.results(submitted.batch.batch_id)]
    assert sorted(names) == sorted(upload.name for upload in given)


@pytest.mark.parametrize("in_order", [True, False])
def test_an_interrupted_batch_goes_on_and_what_is_there_is_not_sent_again(
    service: ServiceProcess, in_order: bool
) -> None:
    given, key = fresh(60), f"interrupted {in_order}"

    async def interrupted() -> None:
        taken = asyncio.Event()
        async with AsyncClient(service.url) as client:
            work = asyncio.create_task(
                client.submit_many(
                    given,
                    key=key,
                    in_order=in_order,
                    on_verdict=lambda verdict: taken.set() if verdict.index == 12 else None,
                )
            )
            await taken.wait()
            work.cancel()
            await asyncio.wait({work})
            assert len(asyncio.all_tasks()) == 1

    asyncio.run(interrupted())
    with Client(service.url) as client:
        had = client.open_batch(key=key)
        assert had.replayed
        assert had.state == "open"
        assert 12 <= had.accepted < 60
        submitted = client.submit_many(given, key=key, in_order=in_order)
        # One may have been accepted after we looked, when its answer was cut off.
        assert submitted.known >= had.accepted
        assert submitted.known + submitted.sent == 60
        names = [result.name for result in client.results(had.batch_id)]
        assert sorted(names) == sorted(upload.name for upload in given)
        assert names == [upload.name for upload in given] or not in_order
        with pytest.raises(Conflict, match="batch-closed"):
            client.submit_many([*given, *fresh(1)], key=key)


def test_a_line_that_is_cut_after_the_service_wrote_makes_no_second_document(service: ServiceProcess) -> None:
    with Wire(service.url, cuts=2) as wire, Client(wire.url) as client:
        (upload,) = fresh(1, size_bytes=100_000)
        document = client.submit(upload)
        assert wire.cut == 2
        assert document.replayed
        ended = client.wait(document)
    with Client(service.url) as client:
        assert client.batch(document.batch_id).accepted == 1
        assert ended.duplicate_of is None, "its own copy would be a duplicate"


def test_a_batch_over_a_line_that_is_cut_again_and_again_has_each_document_once(service: ServiceProcess) -> None:
    given = fresh(30)
    with Wire(service.url, cuts=8, cut_what=b"POST /v1/batches/") as wire, Client(wire.url) as client:
        submitted = client.submit_many(given, key="over a bad line", in_order=False)
        assert wire.cut == 8
    with Client(service.url) as client:
        results = list(client.results(submitted.batch.batch_id))
    assert sorted(result.name for result in results) == sorted(upload.name for upload in given)
    assert {result.kind for result in results} == {"receipt"}, "no duplicates"


def test_results_go_on_over_streams_that_are_cut(service: ServiceProcess, client: Client) -> None:
    submitted = client.submit_many(fresh(12))
    with Wire(service.url, cuts=3, cut_what=b"GET /v1/batches/") as wire, Client(wire.url) as bad:
        assert [result.position for result in bad.results(submitted.batch.batch_id)] == list(range(1, 13))
        assert wire.cut == 3


def test_a_service_that_is_killed_and_starts_again_costs_nothing_but_time(tmp_path: Path) -> None:
    given = fresh(60, size_bytes=20_000)
    seen: list[str] = []

    def follow(url: str, batch_id: int) -> None:
        with Client(url) as follower:
            seen.extend(result.name for result in follower.results(batch_id))

    with ServiceProcess(tmp_path) as service, Client(service.url, deadline_s=120) as client:
        batch = client.open_batch(key="killed")
        following = threading.Thread(target=follow, args=(service.url, batch.batch_id))
        following.start()

        def restart() -> None:
            until(lambda: len(seen) >= 5)
            service.end(signal.SIGKILL)
            service.start()

        restarting = threading.Thread(target=restart)
        restarting.start()
        slowly = (upload for upload in given if not time.sleep(0.02))  # so that it is killed in the middle
        submitted = client.submit_many(slowly, key="killed")
        restarting.join()
        following.join(60)
        assert (submitted.given, submitted.refused) == (60, 0)
        assert seen == [upload.name for upload in given]
        assert {result.kind for result in client.results(batch.batch_id)} == {"receipt"}


def test_under_overload_all_come_in_by_and_by_and_the_service_is_not_pressed(tmp_path: Path) -> None:
    (tmp_path / "limits.toml").write_text("[service]\ndocuments = 3\n")
    given = fresh(5, size_bytes=1_500_000)
    options = ("--limits", "limits.toml")
    with ServiceProcess(tmp_path, *options) as service, Client(service.url, in_flight=5, deadline_s=120) as client:
        submitted = client.submit_many(given, in_order=False)
        assert submitted.sent == 5
        assert client.later > 0
        assert client.capacity().fields["refused"]["Full"] == client.later, "each refusal was heard"
        assert len(list(client.results(submitted.batch.batch_id))) == 5


def test_keys_are_read_from_the_environment_and_a_wrong_one_is_said_to_be_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import subprocess
    import sys

    made = [sys.executable, "-m", "headrace", "serve", "--keys", "keys.toml", "--new-key", "acme:submit,read"]
    key = subprocess.run(made, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.strip()
    with ServiceProcess(tmp_path, "--keys", "keys.toml") as service:
        monkeypatch.setenv("HEADRACE_API_KEY", key)
        with Client(service.url) as client:
            assert client.wait(client.submit(fresh(1)[0])).done
        with Client(service.url, api_key=key[:-1] + "?") as client, pytest.raises(NotAllowed, match="unauthorized"):
            client.capacity()
        monkeypatch.delenv("HEADRACE_API_KEY")
        with Client(service.url) as client, pytest.raises(NotAllowed):
            client.submit(fresh(1)[0])


def test_ctrl_c_ends_a_call_leaves_nothing_open_and_the_client_can_go_on(client: Client) -> None:
    batch = client.open_batch()
    interrupting = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    interrupting.start()
    with pytest.raises(KeyboardInterrupt):
        list(client.results(batch.batch_id))
    interrupting.join()
    assert client.close_batch(batch.batch_id).accepted == 0


def test_the_client_without_asyncio_says_what_to_do_inside_of_it(service: ServiceProcess) -> None:
    async def inside() -> None:
        with Client(service.url) as client:
            client.capacity()

    with pytest.raises(ClientError, match="AsyncClient"):
        asyncio.run(inside())


def test_whoever_listens_for_results_that_do_not_come_is_told_at_the_deadline(client: Client) -> None:
    batch = client.open_batch()
    with pytest.raises(DeadlinePassed):
        list(client.results(batch.batch_id, deadline_s=0.5))
    client.close_batch(batch.batch_id)
    assert list(client.results(batch.batch_id)) == []


def test_results_are_the_lines_of_the_ledger(client: Client) -> None:
    submitted = client.submit_many(fresh(3))
    for result in client.results(submitted.batch.batch_id, follow=True):
        assert json.dumps(result.fields)
        assert result.fields["ledger"]["voucher"].startswith("main-")
        assert len(result.sha256) == 64
