"""Search over HTTP: each client in what is its own, a few at once, and honest about what it cannot see yet."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import hashlib
import sqlite3
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from http_service import HttpService
from service_support import serving
from test_http_documents import problem

from headrace.ledger import BookWriter, Draft, Policy
from headrace.search import Embedder, Tokens, Vector, update
from headrace.search.errors import EmbedderMissing
from headrace.search.minilm import MiniLM
from headrace.search.null import NullEmbedder
from headrace.service.auth import Keys, make_key
from headrace.service.edge import Edge
from headrace.service.limits import Limits
from headrace.service.searching import MEMORY_BYTES
from headrace.service.views import ServiceLimits
from headrace.storage.sqlite import SqliteStore
from headrace.storage.store import Registration

TODAY = dt.date(2026, 3, 4)
TOLD = (
    ("Radio Taxis de Lisboa", "taxi ride to the airport", "2026-02-03", "61.40", "EUR", "alice"),
    ("City Cabs", "taxi ride home", "2026-02-05", "18.00", "GBP", "bob"),
    ("Hotel Aurora", "two nights with breakfast", "2026-02-04", "244.00", "EUR", "alice"),
    ("Hardware Depot", "wall paint and a brush", "2025-11-02", "118.00", "GBP", "bob"),
    ("Taxi Central", "taxi from the station", "2026-01-05", "9.50", "EUR", None),  # came by `headrace run`
)


def receipt(told: Sequence[Any], document_id: str) -> dict[str, Any]:
    name, goods, date, total, currency, _ = told
    return {
        "document_id": document_id,
        "sha256": "0" * 64,
        "source": {"kind": "file", "uri": "a.jpg"},
        "merchant": {"name": {"value": name}},
        "issue_date": {"value": date, "status": "ok"},
        "currency": {"value": currency, "status": "ok"},
        "payable_amount": {"value": total, "status": "ok"},
        "line_items": [{"line": 1, "description": goods}],
    }


def write_receipts(workspace: Path, told: Sequence[Sequence[Any]] = TOLD, key: str = "scans") -> None:
    """A finished batch that holds documents of two clients, and one of nobody."""
    with SqliteStore.open(workspace) as store:
        batch_id = store.open_batch("main", key, TODAY.isoformat(), "{}").batch_id
        names = [f"{key}/{n}.jpg" for n in range(len(told))]
        store.register(batch_id, [Registration(name, name.encode(), size_bytes=1, mtime_ns=1) for name in names])
        store.finish_listing(batch_id)
        writer = BookWriter("main", store.head("main"), Policy(rules=()), TODAY)
        drafts = [
            Draft(document, hashlib.sha256(document.uri.encode()).hexdigest(), 1, receipt(its, document.document_id))
            for document, its in zip(store.pending(batch_id, 0, len(told)), told, strict=True)
        ]
        store.commit(writer.decide(drafts, {}))
        store.finish_batch(batch_id)
    with contextlib.closing(sqlite3.connect(next(workspace.glob("*.db")))) as database:
        for position, its in enumerate(told, start=1):
            if its[-1] is not None:
                digest = hashlib.sha256(its[0].encode()).digest()
                row = (batch_id, position, its[-1], 0, digest, 0.0, 2, 0, 0)
                columns = "batch_id, position, client, class, sha256, accepted_at, lease, fence, restarts"
                database.execute(f"INSERT INTO submissions({columns}) VALUES (?,?,?,?,?,?,?,?,?)", row)
        database.commit()


@contextlib.asynccontextmanager
async def searched_edge(
    make: Callable[[], Embedder] = NullEmbedder, keys: Keys | None = None, *, indexed: bool = True, **limits: int
) -> AsyncIterator[Edge]:
    told = ServiceLimits(min_free_bytes=0, **limits)
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder) / "w"
        write_receipts(workspace)
        if indexed:
            await update(workspace, make())
        async with serving(workspace, told) as reception:
            reception.search.embedder = make
            yield Edge(reception, keys=keys or Keys(), limits=Limits(service=told))


@pytest.fixture(scope="module")
def made_keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    path = tmp_path_factory.mktemp("keys") / "keys.toml"
    told = {"alice": "alice:read", "bob": "bob:read", "ops": "ops:admin", "sender": "alice:submit"}
    return path, {name: make_key(path, roles) for name, roles in told.items()}


@pytest.fixture(scope="module")
def service(made_keys: tuple[Path, dict[str, str]]) -> Iterator[HttpService]:
    with HttpService(lambda: searched_edge(keys=Keys.load(made_keys[0]))) as running:
        yield running


@pytest.fixture
def ask(service: HttpService, made_keys: tuple[Path, dict[str, str]]) -> Iterator[Callable[..., httpx.Response]]:
    with service.client() as client:

        def search(who: str, **query: Any) -> httpx.Response:
            return client.get("/v1/search", params=query, headers={"Authorization": f"Bearer {made_keys[1][who]}"})

        yield search


def names(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [item["merchant"] for item in answer.json()["items"]]


def test_a_client_finds_its_own_documents_and_an_admin_everybodys(ask: Callable[..., httpx.Response]) -> None:
    everybody = {told[0] for told in TOLD}
    for q in ("taxi", "nights breakfast paint", "nothing of the kind"):  # by meaning, something is always nearest
        found = {who: set(names(ask(who, q=q, limit=100))) for who in ("alice", "bob", "ops")}
        assert found["alice"] == {"Radio Taxis de Lisboa", "Hotel Aurora"}
        assert found["bob"] == {"City Cabs", "Hardware Depot"}
        assert found["ops"] == everybody
    assert names(ask("alice", q="taxi", merchant="city cabs")) == []
    problem(ask("sender", q="taxi"), 403, "forbidden")


def test_what_is_found_says_where_it_is_and_that_the_search_was_complete(ask: Callable[..., httpx.Response]) -> None:
    answer = ask("alice", q="airport taxi", limit=1)
    told = answer.json()
    assert (told["complete"], told["entries_behind"], told["without_vector"]) == (True, 0, 0)
    (hit,) = told["items"]
    assert (hit["total"], hit["currency"], hit["issue_date"]) == ("61.40", "EUR", "2026-02-03")
    assert hit["by"] == ["words", "meaning"]
    assert hit["voucher"].startswith("main-")
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("narrowed", "left"),
    [
        ({"after": "2026-02-04"}, {"City Cabs", "Hotel Aurora"}),
        ({"before": "2026-01-05"}, {"Hardware Depot", "Taxi Central"}),
        ({"min_total": "61.4", "max_total": "118"}, {"Radio Taxis de Lisboa", "Hardware Depot"}),
        ({"currency": "gbp"}, {"City Cabs", "Hardware Depot"}),
        ({"merchant": "taxi"}, {"Radio Taxis de Lisboa", "Taxi Central"}),
        ({"verdict": "rejected"}, set()),
        ({"batch": 1}, {told[0] for told in TOLD}),
        ({"batch": 2}, set()),
    ],
)
def test_every_filter_narrows(ask: Callable[..., httpx.Response], narrowed: dict[str, Any], left: set[str]) -> None:
    assert set(names(ask("ops", q="taxi", **narrowed))) == left


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"q": ""},
        {"q": "   "},
        {"q": "x" * 1001},
        {"q": "taxi", "limit": 101},
        {"q": "taxi", "after": "2026-02-30"},
        {"q": "taxi", "after": "2026-02-04", "before": "2026-02-03"},
        {"q": "taxi", "min_total": "NaN"},
        {"q": "taxi", "min_total": "2", "max_total": "1"},
        {"q": "taxi", "verdict": "duplicate"},
        {"q": "taxi", "merchant": "..."},
    ],
)
def test_what_makes_no_sense_is_400_and_says_why(ask: Callable[..., httpx.Response], query: dict[str, Any]) -> None:
    assert problem(ask("alice", **query), 400, "malformed-request")["detail"]


def test_without_the_extra_it_says_what_to_install_and_everything_else_works() -> None:
    def missing() -> Embedder:
        raise EmbedderMissing("search needs tokenizers: pip install 'headrace[search]'")

    def without(edge: Edge) -> None:
        edge.reception.search.embedder = missing

    with HttpService(lambda: searched_edge()) as service, service.client() as client:
        service.look(without)
        for _ in range(2):
            told = problem(client.get("/v1/search", params={"q": "taxi"}), 503, "search-unavailable")
            assert "pip install 'headrace[search]'" in told["detail"]
        assert client.get("/readyz").status_code == 200
        service.look(lambda edge: setattr(edge.reception.search, "embedder", NullEmbedder))
        assert names(client.get("/v1/search", params={"q": "taxi"}))


class Held(NullEmbedder):
    """Embeds queries when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Semaphore(0)
        self.go = threading.Event()

    def embed(self, texts: Sequence[Tokens]) -> list[Vector]:
        self.begun.release()
        assert self.go.wait(20)
        return super().embed(texts)


def test_more_searches_than_may_be_are_refused_at_once_and_the_loop_stays_free() -> None:
    held = Held()
    taxi = {"q": "taxi"}
    with HttpService(lambda: searched_edge(search_requests=2)) as service, service.client() as client:
        service.look(lambda edge: setattr(edge.reception.search, "embedder", lambda: held))
        with ThreadPoolExecutor(2) as others:
            try:
                waiting = [others.submit(client.get, "/v1/search", params=taxi) for _ in range(2)]
                for _ in waiting:
                    assert held.begun.acquire(timeout=20)
                refused = client.get("/v1/search", params=taxi)
                problem(refused, 429, "queue-full")
                assert int(refused.headers["retry-after"]) >= 1
                assert client.get("/livez").status_code == 200
                bounds = client.get("/v1/capacity").json()["bounds"]
                assert (bounds["search_requests"]["used"], bounds["search_requests"]["limit"]) == (2, 2)
            finally:
                held.go.set()
            assert all(names(one.result()) for one in waiting)
        assert names(client.get("/v1/search", params=taxi))


def test_a_search_whose_client_has_gone_keeps_its_permit_and_ends_before_the_store_closes() -> None:
    held = Held()

    async def cancelled(edge: Edge) -> int:
        edge.reception.search.embedder = lambda: held
        task = asyncio.create_task(edge.reception.search.find("taxi", 10))
        await asyncio.to_thread(held.begun.acquire, timeout=20)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        bound = edge.reception.search.bounds()[0]
        held.go.set()
        return bound.used  # type: ignore[return-value]

    with HttpService(lambda: searched_edge()) as service:
        assert service.ask(cancelled) == 1


def test_what_is_not_indexed_yet_is_counted_and_found_after_an_update() -> None:
    taxi = {"q": "taxi"}

    async def bring_up(edge: Edge) -> None:
        await update(edge.reception.search.workspace, NullEmbedder())

    with HttpService(lambda: searched_edge(indexed=False)) as service, service.client() as client:
        before = client.get("/v1/search", params=taxi).json()
        assert (before["items"], before["complete"], before["entries_behind"]) == ([], False, len(TOLD))
        service.ask(bring_up)
        after = client.get("/v1/search", params=taxi).json()
        assert (len(after["items"]), after["complete"], after["entries_behind"]) == (len(TOLD), True, 0)


def test_with_the_model_of_this_machine_an_overnight_accommodation_is_a_hotel() -> None:
    with HttpService(lambda: searched_edge(lambda: MiniLM(sessions=1))) as service, service.client() as client:
        best, *_ = client.get("/v1/search", params={"q": "overnight accommodation", "limit": 1}).json()["items"]
        assert (best["merchant"], best["by"]) == ("Hotel Aurora", ["meaning"])
        assert client.get("/v1/capacity").json()["bounds"]["search_memory"]["used"] == MEMORY_BYTES
