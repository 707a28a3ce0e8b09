"""`headrace serve` as a process: it says where it is, stops by signals, reloads, and is never open by accident."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from http_service import fresh

SOON_S = 60.0  # the machine may be busy


class Served:
    """A running command; `url` is where it says that it is."""

    def __init__(self, place: Path, *options: str) -> None:
        self._errors = place / f"stderr-{len(list(place.glob('stderr-*')))}"
        self._file = open(self._errors, "wb")  # noqa: SIM115  # `end` closes it
        command = [sys.executable, "-m", "headrace", "serve", "--engine", "null", "--workers", "1", "--port", "0"]
        command += ["--workspace", str(place / "w"), *options]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
        self.process = subprocess.Popen(
            command, cwd=place, env=environment, stdout=subprocess.PIPE, stderr=self._file, text=True
        )

    @property
    def errors(self) -> str:
        return self._errors.read_text()

    @property
    def url(self) -> str:
        self.until(lambda: "/docs" in self.errors or self.process.poll() is not None)
        found = re.search(r"(http://\S+:\d+) \(", self.errors)
        assert found, self.errors
        return found[1]

    def workers(self) -> list[int]:
        pid = self.process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def kill(self) -> None:
        if self.process.poll() is None:
            for child in self.workers():
                os.kill(child, signal.SIGKILL)
            self.process.kill()

    def until(self, holds: Callable[[], bool]) -> None:
        end = time.monotonic() + SOON_S
        while not holds():
            assert time.monotonic() < end, self.errors
            time.sleep(0.02)

    def end(self) -> int:
        code = self.process.wait(SOON_S)
        self._file.close()
        return code

    def stop(self) -> int:
        self.process.terminate()
        return self.end()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    running: list[Served] = []

    def start(*options: str) -> Served:
        running.append(Served(tmp_path, *options))
        return running[-1]

    yield start
    for served in running:
        served.kill()
        served.end()
        assert served.process.stdout is not None
        served.process.stdout.close()


def headrace(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headrace", *arguments]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=SOON_S)


def test_it_says_where_it_is_takes_documents_drains_and_leaves_a_good_ledger(serve, tmp_path):
    served = serve()
    with httpx.Client(base_url=served.url, timeout=30) as client:
        for _ in range(20):
            assert client.post("/v1/documents", content=fresh()).status_code == 202
    assert "RSS ceiling" in served.errors
    assert served.stop() in (0, 143)
    assert re.search(r"drained in .* s: \d+ finished, \d+ handed back, 0 abandoned", served.errors)
    again = serve()
    with httpx.Client(base_url=again.url, timeout=30) as client:
        again.until(lambda: len(client.get("/v1/ledger").json()["items"]) == 20)
    assert again.stop() == 0
    verified = headrace(tmp_path, "verify", "--workspace", "w")
    assert (verified.returncode, "the chain holds" in verified.stdout) == (0, True), verified.stderr


def test_the_second_signal_stops_at_once_and_what_ran_goes_on_at_the_next_start(serve):
    served = serve("--drain-deadline", "1000s")
    with httpx.Client(base_url=served.url, timeout=30) as client:
        assert client.post("/v1/documents", content=fresh(), headers={"Prefer": "wait=30"}).status_code == 200
        for worker in served.workers():
            os.kill(worker, signal.SIGSTOP)  # so that a document does not come to its end
        name = client.post("/v1/documents", content=fresh()).json()["document_id"]
        served.until(lambda: client.get(f"/v1/documents/{name}").json()["state"] == "running")
        served.process.terminate()
        served.until(lambda: client.get("/readyz").status_code == 503)
        assert client.post("/v1/documents", content=fresh()).status_code == 503
        assert client.get(f"/v1/documents/{name}").status_code == 200, "questions are answered while it drains"
    assert served.stop() == 143
    assert "stopped at once" in served.errors
    assert "Traceback" not in served.errors
    again = serve()
    with httpx.Client(base_url=again.url, timeout=30) as client:
        again.until(lambda: client.get(f"/v1/documents/{name}").json()["state"] == "succeeded")
    assert again.stop() == 0


def test_sighup_reloads_limits_and_a_file_that_makes_no_sense_changes_nothing(serve, tmp_path):
    limits = tmp_path / "limits.toml"
    limits.write_text("[service]\ndocuments = 7\n")
    served = serve("--limits", "limits.toml")
    with httpx.Client(base_url=served.url, timeout=30) as client:

        def limit() -> float:
            return client.get("/v1/capacity").json()["bounds"]["documents"]["limit"]

        assert limit() == 7
        limits.write_text("[service]\ndocuments = 9\n")
        served.process.send_signal(signal.SIGHUP)
        served.until(lambda: limit() == 9)
        limits.write_text("[service]\ndokuments = 11\n")
        served.process.send_signal(signal.SIGHUP)
        served.until(lambda: "not reloaded" in served.errors)
        assert "did you mean documents" in served.errors
        assert limit() == 9
    assert served.stop() == 0


def test_a_new_key_is_shown_once_and_lets_in(serve, tmp_path):
    made = headrace(tmp_path, "serve", "--keys", "keys.toml", "--new-key", "acme:submit,read")
    assert made.returncode == 0, made.stderr
    key = made.stdout.strip()
    served = serve("--keys", "keys.toml")
    with httpx.Client(base_url=served.url, timeout=30) as client:
        assert client.post("/v1/documents", content=fresh()).status_code == 401
        headers = {"Authorization": f"Bearer {key}"}
        assert client.post("/v1/documents", content=fresh(), headers=headers).status_code == 202
    assert key not in served.errors


@pytest.mark.parametrize(
    ("options", "code", "word"),
    [
        (["--host", "0.0.0.0"], 9, "--keys"),
        (["--new-key", "a:read"], 2, "--keys"),
        (["--keys", "nothing.toml"], 2, "nothing.toml"),
        (["--limits", "nothing.toml"], 2, "nothing.toml"),
        (["--keys", "k.toml", "--new-key", "a:fly"], 2, "submit, read, review, admin"),
    ],
)
def test_what_makes_no_sense_stops_the_start(tmp_path, options, code, word):
    ended = headrace(tmp_path, "serve", "--engine", "null", *options)
    assert (ended.returncode, word in ended.stderr) == (code, True), ended.stderr


def test_an_address_that_is_taken_stops_the_start(serve, tmp_path):
    port = serve().url.rpartition(":")[2]
    other = headrace(tmp_path, "serve", "--engine", "null", "--workers", "1", "--workspace", "other", "--port", port)
    assert (other.returncode, f":{port}" in other.stderr) == (5, True), other.stderr
    assert "Traceback" not in other.stderr
