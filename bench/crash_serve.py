"""kill -9 of the whole service at random moments under load, with clients that try again until they are told 202.

    python bench/crash_serve.py                     200 kills
    python bench/crash_serve.py --kills 20 --seed 7

Clients send documents of their own without end. Half of them name each with an Idempotency-Key, the others rely on the
bytes. One that got no answer sends the same again, until it has its 202; then it goes on to the next. Most kills come
while documents are taken and worked on, some in the first second of a start. At the end every client gets its last 202,
the service finishes what it has and is stopped with SIGTERM. Then, by the ledger's own file and `headrace verify`:

    every 202 has exactly one entry            every entry is of a document that a client was told 202 for
    vouchers are 1, 2, 3 ... without a gap     the bytes of each entry are those that its client sent
    the chain holds                            each document that was sent again is the same document

Exit code 1 when one of these is not so.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import http.client
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from http_load import JPEG
from serving import HERE, Server, database, get, headrace, load_average

FINISH_S = 120.0


@dataclass
class Client:
    """Sends documents one after the other, each as often as it takes. Lives in a thread of its own."""

    number: int
    port: int
    stop: threading.Event
    seed: int
    told: dict[str, str] = field(default_factory=dict)  # document id -> digest of what was sent
    changed: list[str] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    again: int = 0

    def run(self) -> None:
        connection: http.client.HTTPConnection | None = None
        rng = random.Random(self.seed * 1000 + self.number)
        serial = 0
        while not self.stop.is_set():
            serial += 1
            body = JPEG + b"client %d document %d " % (self.number, serial) + rng.randbytes(rng.randrange(100, 60_000))
            headers = {"Content-Type": "image/jpeg"}
            if self.number % 2:
                headers["Idempotency-Key"] = f'"{self.number}-{serial}"'
            tries = 0
            while True:  # also after `stop`: what was sent once is sent until it is accepted
                tries += 1
                try:
                    connection = connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
                    connection.request("POST", "/v1/documents", body, headers)
                    answer = connection.getresponse()
                    content = answer.read()
                except (OSError, http.client.HTTPException):
                    if connection is not None:
                        connection.close()
                    connection = None
                    self.statuses[0] += 1
                    time.sleep(rng.uniform(0.05, 0.3))
                    continue
                self.statuses[answer.status] += 1
                if answer.status in (200, 202):
                    self._accepted(json.loads(content), body)
                    self.again += tries > 1
                    break
                if answer.status not in (429, 503, 409):
                    self.changed.append(f"client {self.number}, document {serial}: {answer.status} {content[:200]!r}")
                    break
                time.sleep(min(1.0, float(answer.headers.get("Retry-After", "1"))))

    def _accepted(self, reply: dict[str, str], body: bytes) -> None:
        name, sha256 = reply["document_id"], hashlib.sha256(body).hexdigest()
        if reply["sha256"] != sha256:
            self.changed.append(f"{name}: {reply['sha256']} instead of {sha256}")
        if name in self.told:
            self.changed.append(f"{name} was told for two documents")
        self.told[name] = sha256


def check(folder: Path, clients: list[Client]) -> list[str]:
    """Everything that is wrong at the end."""
    told = {name: sha256 for client in clients for name, sha256 in client.told.items()}
    wrong = [line for client in clients for line in client.changed]
    if len(told) != sum(len(client.told) for client in clients):
        wrong.append("two clients were told the same document")
    with database(folder) as connection:
        rows = connection.execute(
            "SELECT sequence, i.document_id, content FROM entries e LEFT JOIN document_ids i "
            "ON i.batch_id = e.batch_id AND i.position = e.position WHERE amends = 0 ORDER BY book_id, sequence"
        ).fetchall()
        in_flight = connection.execute("SELECT sum(in_flight), sum(accepted) FROM batches").fetchone()
        twice = connection.execute(
            "SELECT count(*) FROM (SELECT 1 FROM entries WHERE amends = 0 GROUP BY batch_id, position HAVING count(*) > 1)"
        ).fetchone()[0]
    names = Counter(json.loads(content)["document_id"] for _, _, content in rows)
    digests = {json.loads(content)["document_id"]: json.loads(content).get("sha256") for _, _, content in rows}
    kinds = Counter(json.loads(content).get("state") for _, _, content in rows)
    wrong += [f"accepted, without an entry: {name}" for name in sorted(told.keys() - names.keys())]
    wrong += [f"an entry, but nobody was told 202: {name}" for name in sorted(names.keys() - told.keys())]
    wrong += [f"{count} entries of {name}" for name, count in names.items() if count != 1]
    wrong += [f"{name} has other bytes" for name in told.keys() & digests.keys() if digests[name] != told[name]]
    if [row[0] for row in rows] != list(range(1, len(rows) + 1)):
        wrong.append("vouchers are not contiguous")
    if twice:
        wrong.append(f"{twice} documents have two outcomes")
    if in_flight[0] or in_flight[1] != len(rows):
        wrong.append(f"accounts: {in_flight[1]} accepted, {in_flight[0]} in flight, {len(rows)} entries")
    print(f"{len(told):,} told 202, {len(rows):,} entries ({dict(kinds)})")
    verify = [sys.executable, "-m", "headrace", "verify", "--workspace", str(folder / "workspace")]
    verified = subprocess.run(verify, capture_output=True, text=True)
    print(verified.stdout.strip())
    if verified.returncode:
        wrong.append(f"headrace verify: {verified.returncode} {verified.stderr}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--service-time", type=float, default=0.01)
    parser.add_argument("--most-alive", type=float, default=1.5, help="seconds between ready and kill, at most")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "service"
        limits = {"service": {"documents": 200}}
        server = headrace(folder, "--workers", "2", service_time_s=options.service_time, limits=limits)
        stop = threading.Event()
        clients = [Client(number, server.port, stop, options.seed) for number in range(options.clients)]
        threads = [threading.Thread(target=client.run) for client in clients]
        server.start()
        for thread in threads:
            thread.start()
        try:
            while_starting = _kill_again_and_again(server, options.kills, options.most_alive, rng, clients, began)
            stop.set()
            for thread in threads:
                thread.join(FINISH_S)
            ends = time.monotonic() + FINISH_S
            while get(server.port, "/v1/capacity")["in_flight"] and time.monotonic() < ends:
                time.sleep(0.1)
            code = server.terminate()
        finally:
            stop.set()
            server.kill()
        wrong = check(folder, clients)
        if code:
            wrong.append(f"the last, quiet stop ended with {code}")
        said = [line for line in server.said().splitlines() if "bug" in line.lower() or "Traceback" in line]
        wrong += [f"said: {line}" for line in Counter(said)]
    statuses: Counter[int] = sum((client.statuses for client in clients), Counter())
    again = sum(client.again for client in clients)
    print(
        f"seed {options.seed}: {options.kills} kills ({while_starting} of them while starting) in "
        f"{time.monotonic() - began:.0f} s, load average {load_average()}; {again:,} documents were sent more than once; "
        f"answers {dict(sorted(statuses.items()))} (0: none)"
    )
    for line in wrong[:50]:
        print(f"BAD  {line}")
    result = {"seed": options.seed, "kills": options.kills, "while_starting": while_starting, "again": again,
              "accepted": sum(len(client.told) for client in clients), "statuses": statuses, "wrong": wrong}  # fmt: skip
    out = HERE / "out"
    out.mkdir(exist_ok=True)
    (out / "crash_serve.json").write_text(json.dumps(result, indent=1))
    if not wrong:
        print("every 202 has exactly one entry, no entry without an accept, vouchers contiguous, the chain holds")
    return 1 if wrong else 0


def _kill_again_and_again(
    server: Server, kills: int, most_alive_s: float, rng: random.Random, clients: list[Client], began: float
) -> int:
    while_starting = 0
    for kill in range(1, kills + 1):
        time.sleep(rng.uniform(0.0, most_alive_s))
        server.kill()
        server.start(wait=False)
        while rng.random() < 0.1 and kill < kills:  # dies again while it is still coming up
            time.sleep(rng.uniform(0.0, 1.5))
            with contextlib.suppress(OSError, http.client.HTTPException):
                if get(server.port, "/readyz", 0.5) is not None:
                    break
            server.kill()
            server.start(wait=False)
            while_starting += 1
        server.wait_ready()
        if kill % 20 == 0:
            accepted = sum(len(client.told) for client in clients)
            print(f"{kill} kills, {accepted:,} accepted, {time.monotonic() - began:.0f} s", flush=True)
    return while_starting


if __name__ == "__main__":
    raise SystemExit(main())
