"""`headrace submit` against the real service: what it prints, how it ends, and that it goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from drawn_paper import png
from service_process import ServiceProcess, until

from headrace.cli.exit_codes import ExitCode
from headrace.cli.submit_progress import Tally, progress_line
from headrace.client import Client


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "headrace", "submit", *args]


def environment(**more: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")} | more


def submit(folder: Path, *args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*args), cwd=folder, env=environment(), input=stdin, capture_output=True, text=True, timeout=60
    )


def names_in(lines: str) -> list[str]:
    return [json.loads(line)["source"]["uri"] for line in lines.splitlines()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twelve scans whose order by text is not their order by number."""
    scans = tmp_path / "scans"
    scans.mkdir()
    for number in range(1, 13):
        (scans / f"{number}.png").write_bytes(png(f"{tmp_path} {number}", 400_000 if number == 3 else 0))
    return tmp_path


SORTED = [f"scans/{number}.png" for number in range(1, 13)]


def test_a_folder_is_handed_in_in_natural_order_and_results_follow_in_it(service: ServiceProcess, folder: Path) -> None:
    ran = submit(folder, service.url, "scans", "--follow")
    assert (ran.returncode, names_in(ran.stdout)) == (ExitCode.OK, SORTED)
    assert "12 documents = 12 sent" in ran.stderr
    assert "12 results, 0 failed" in ran.stderr
    again = submit(folder, service.url, "scans", "--follow", "-o", "out.jsonl", "-q")
    assert (again.returncode, again.stdout, again.stderr) == (ExitCode.OK, "", "")
    assert (folder / "out.jsonl").read_text() == ran.stdout, "nothing was sent, and the results are the same"


def test_without_follow_the_address_of_the_results_is_printed(service: ServiceProcess, folder: Path) -> None:
    ran = submit(folder, service.url, "scans/*1.png")
    address = ran.stdout.strip()
    assert ran.returncode == ExitCode.OK
    with Client(service.url) as client:
        batch = int(address.removeprefix(f"{service.url}/v1/batches/").removesuffix("/results"))
        assert client.batch(batch).accepted == 2


def test_archives_manifests_and_names_on_standard_input_are_sources(service: ServiceProcess, folder: Path) -> None:
    with tarfile.open(folder / "scans.tar", "w") as archive:
        archive.add(folder / "scans" / "3.png", "deep/3.png")
        archive.add(folder / "scans" / "4.png", "4.png")
    (folder / "list.csv").write_text("id,path\n77,scans/5.png\n")
    ran = submit(folder, service.url, "scans.tar", "list.csv", "-", "--follow", stdin="scans/6.png\n")
    assert ran.returncode == ExitCode.OK, ran.stderr
    assert names_in(ran.stdout) == ["scans.tar/deep/3.png", "scans.tar/4.png", "scans/5.png", "scans/6.png"]
    document_id = json.loads(ran.stdout.splitlines()[2])["document_id"]
    with Client(service.url) as client:
        assert client.document(document_id).fields["external_id"] == "77"


def test_what_is_not_taken_is_named_and_counted(service: ServiceProcess, folder: Path) -> None:
    (folder / "scans" / "2.png").write_bytes(b"")
    ran = submit(folder, service.url, "scans", "scans/gone.png", "--follow")
    assert ran.returncode == ExitCode.USAGE, "a name that is not there is said before anything is sent"
    (folder / "list.csv").write_text("path\nscans/gone.png\n")
    ran = submit(folder, service.url, "scans", "list.csv", "--follow")
    assert ran.returncode == ExitCode.SOME_FAILED
    assert "scans/2.png empty-file" in ran.stderr
    assert "scans/gone.png unreadable-source" in ran.stderr
    assert "13 documents = 11 sent" in ran.stderr
    assert names_in(ran.stdout) == [name for name in SORTED if name != "scans/2.png"]
    ran = submit(folder, service.url, "scans/2.png")
    assert ran.returncode == ExitCode.ALL_FAILED


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["http://127.0.0.1:9", "scans", "--patience", "300ms"], ExitCode.ALL_FAILED, "attempt"),
        (["127.0.0.1:8080", "scans"], ExitCode.USAGE, "it looks like http://127.0.0.1:8080"),
        (["http://me:secret@127.0.0.1:9", "scans"], ExitCode.USAGE, "API key goes into a header"),
        (["http://127.0.0.1:9", "nowhere"], ExitCode.USAGE, "does not exist"),
        (["http://127.0.0.1:9", "scans", "-o", "out.jsonl"], ExitCode.USAGE, "--follow"),
        (["http://127.0.0.1:9", "scans", "--patience", "0"], ExitCode.USAGE, "more than 0"),
        (["http://127.0.0.1:9", "scans", "--follow", "-o", "mine.txt"], ExitCode.OUTPUT, "--overwrite"),
        (["http://127.0.0.1:9", "scans", "--follow", "-o", "no/where"], ExitCode.OUTPUT, "cannot write"),
    ],
)
def test_what_makes_no_sense_or_is_not_there_is_told_and_has_its_code(
    folder: Path, args: Sequence[str], code: ExitCode, says: str
) -> None:
    (folder / "mine.txt").write_text("mine\n")
    ran = submit(folder, *args)
    assert ran.returncode == code, ran.stderr
    assert says in ran.stderr
    assert (folder / "mine.txt").read_text() == "mine\n"


def test_a_closed_batch_says_that_another_key_is_needed(service: ServiceProcess, folder: Path) -> None:
    assert submit(folder, service.url, "scans", "--key", "december").returncode == ExitCode.OK
    (folder / "scans" / "99.png").write_bytes(png(f"{folder} 99"))
    ran = submit(folder, service.url, "scans", "--key", "december")
    assert ran.returncode == ExitCode.USAGE
    assert "take another --key" in ran.stderr


def test_a_closed_output_ends_it_quietly(service: ServiceProcess, folder: Path) -> None:
    typed = " ".join(command(service.url, "scans", "--follow", "-q"))
    ran = subprocess.run(f"{typed} | head -n 1", shell=True, cwd=folder, env=environment(), capture_output=True)
    assert ran.stdout.count(b"\n") == 1
    assert ran.stderr == b""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_after_a_signal_the_same_command_goes_on(service: ServiceProcess, folder: Path, number: signal.Signals) -> None:
    (folder / "names").mkdir()
    reading, names = os.pipe()  # names come one by one, so that the batch is surely in its middle
    args = command(service.url, "-", "--key", f"stopped by {number.name} {folder}")
    running = subprocess.Popen(
        args, cwd=folder, env=environment(), stdin=reading, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    os.close(reading)
    os.write(names, "".join(f"{name}\n" for name in SORTED[:5]).encode())
    with running, Client(service.url) as client:
        batch = client.open_batch(key=f"stopped by {number.name} {folder}")
        until(lambda: client.batch(batch.batch_id).accepted == 5)
        running.send_signal(number)
        try:
            _, said = running.communicate(timeout=30)  # although nobody writes the next name
        finally:
            running.kill()
            os.close(names)
        assert running.returncode == 128 + number
        assert "the same command goes on" in said
        assert client.batch(batch.batch_id).state == "open"
        ran = submit(folder, service.url, "-", "--key", f"stopped by {number.name} {folder}", stdin="\n".join(SORTED))
        assert ran.returncode == ExitCode.OK
        assert "12 documents = 7 sent" in ran.stderr
        assert "5 there already" in ran.stderr
        assert [result.name for result in client.results(batch.batch_id)] == SORTED


def test_json_logs_are_one_object_a_line_with_the_summary_last(service: ServiceProcess, folder: Path) -> None:
    (folder / "scans" / "2.png").write_bytes(b"")
    ran = submit(folder, service.url, "scans", "--follow", "--json-logs")
    told = [json.loads(line) for line in ran.stderr.splitlines()]
    assert told[0]["event"] == "note"
    summary = told[-1]
    assert summary["event"] == "summary"
    assert (summary["given"], summary["sent"], summary["refused"], summary["results"]) == (12, 11, 1, 11)
    assert summary["not_taken"][0].startswith("scans/2.png empty-file")


def test_the_api_key_has_no_option() -> None:
    ran = subprocess.run(command("--help"), capture_output=True, text=True, timeout=60, env=environment())
    assert "HEADRACE_API_KEY" in ran.stdout
    assert "--api-key" not in ran.stdout


def test_progress_says_how_far_how_fast_how_long_and_how_often_later() -> None:
    tally = Tally(total=4000, given=120, known=20, sent=97, refused=3, later=4)
    assert progress_line(tally, 45.0, 86.0, 2.5) == (
        "handed in 120 / 4,000, 45/s, 1 min 26 s left, 20 there already, 3 not taken, later 4 x, waiting 2.5 s"
    )
    tally.follows, tally.results, tally.total = True, 80, None
    assert progress_line(tally, 0.0, None, 0.0).startswith("handed in 120, results 80, 0/s, time left ?, ")
