"""Large documents go on where they were: over a line that is cut, and a service that is killed."""

from __future__ import annotations

import itertools
import signal
from pathlib import Path

import pytest
from drawn_paper import png
from service_process import ServiceProcess, Wire

from headrace.client import Client, DeadlinePassed, Rejected, Upload
from headrace.flow import RetryPolicy

MEGABYTE = 1 << 20
_numbers = itertools.count(1)


def large(size_bytes: int) -> bytes:
    """A document that no other test has handed in."""
    return png(f"large {next(_numbers)}", size_bytes)


def unfinished(client: Client) -> int:
    return int(client.capacity().fields["bounds"]["unfinished_uploads"]["used"])


def test_a_large_document_over_a_line_that_is_cut_again_and_again_is_not_sent_again_from_its_beginning(
    service: ServiceProcess, tmp_path: Path
) -> None:
    path = tmp_path / "large.png"
    path.write_bytes(large(20 * MEGABYTE))
    with Wire(service.url, cuts=3, after_bytes=4 * MEGABYTE) as wire, Client(wire.url) as client:
        document = client.submit(path)
        assert wire.cut == 3
        assert wire.carried_bytes < 29 * MEGABYTE, "32 and more, had it begun anew; what was in buffers may be lost"
    with Client(service.url) as client:
        assert (document.fields["size_bytes"], document.fields["filename"]) == (path.stat().st_size, path.name)
        assert client.wait(document).done
        assert unfinished(client) == 0


def test_an_upload_may_break_off_more_often_than_a_call_is_tried_as_long_as_something_arrives(
    service: ServiceProcess,
) -> None:
    hasty = RetryPolicy(attempts=3, first_delay_s=0.001)
    with Wire(service.url, cuts=12, after_bytes=MEGABYTE) as wire, Client(wire.url, policy=hasty) as client:
        assert client.submit(large(16 * MEGABYTE)).fields["size_bytes"] == 16 * MEGABYTE
        assert wire.cut == 12


def test_a_service_that_is_killed_in_the_middle_of_an_upload_goes_on_with_it(tmp_path: Path) -> None:
    with ServiceProcess(tmp_path) as service:

        def restart() -> None:
            service.end(signal.SIGKILL)
            service.start()

        with Wire(service.url, cuts=1, after_bytes=16 * MEGABYTE, on_cut=restart) as wire, Client(wire.url) as client:
            document = client.submit(large(24 * MEGABYTE))
            assert wire.cut == 1
            assert wire.carried_bytes < 36 * MEGABYTE, "40, had it begun anew; what was in buffers is lost"
            assert client.wait(document).done


def test_the_lost_answer_of_a_completed_upload_is_found_again(service: ServiceProcess) -> None:
    wire = Wire(service.url, cuts=1, cut_what=b"PATCH /v1/uploads")
    with wire, Client(wire.url, resumable_bytes=1) as client:
        document = client.submit(large(100_000))
        assert wire.cut == 1
    with Client(service.url) as client:
        assert client.batch(document.batch_id).accepted == 1
        assert client.wait(document).duplicate_of is None


def test_large_documents_of_a_batch_keep_its_order_and_cost_only_themselves(service: ServiceProcess) -> None:
    given = [Upload(large(size), f"{n}.png") for n, size in enumerate((300_000, 2000, 400_000))]
    given.insert(1, Upload(b"a letter " * 50_000, "letter.txt"))
    with Client(service.url, resumable_bytes=100_000) as client:
        submitted = client.submit_many(given, key="large ones")
        assert (submitted.sent, submitted.refused) == (3, 1)
        assert [verdict.problem.code for verdict in submitted.refusals if verdict.problem] == ["unsupported-media-type"]
        names = [result.name for result in client.results(submitted.batch.batch_id)]
        assert names == ["0.png", "1.png", "2.png"]
        same = client.submit(given[0], key="again")
        assert client.submit(given[0], key="again").document_id == same.document_id
    with Client(service.url, resumable_bytes=0) as client, pytest.raises(Rejected, match="empty-file"):
        client.submit(b"")


def test_an_upload_that_is_given_up_leaves_its_place(tmp_path: Path) -> None:
    limits = tmp_path / "limits.toml"
    limits.write_text("[quotas.default]\nper_s = 0.001\nburst = 1\n")
    with (
        ServiceProcess(tmp_path, "--limits", str(limits)) as service,
        Client(service.url, resumable_bytes=1, deadline_s=1.0) as client,
    ):
        client.submit(large(2000))
        with pytest.raises(DeadlinePassed, match="rate-limited"):
            client.submit(large(2000))
        assert unfinished(client) == 0
