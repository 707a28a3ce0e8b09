"""A client that waits and hangs up costs nothing from then on: waits are bounded by connections that are open."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from faulty_reading import faulty_pool
from http_service import HttpService, fresh, open_edge
from test_http_limits import head, refuse_all

from headrace.service import house

_CLIENTS = 5


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpService]:
    monkeypatch.setattr(house, "worker_pool", faulty_pool)
    with HttpService(open_edge) as running:
        yield running


def under_way(_) -> int:
    """Requests that are being answered."""
    return sum(task.get_coro().__qualname__.endswith("run_asgi") for task in asyncio.all_tasks())


def test_who_waits_for_a_result_and_hangs_up_is_waited_for_no_more(service: HttpService):
    content = fresh()
    asked = head("Prefer: wait=60", f"Content-Length: {len(content)}", path="/v1/documents?filename=hang") + content
    sockets = [service.connect() for _ in range(_CLIENTS)]
    for sock in sockets:
        sock.sendall(asked)
    service.until(lambda edge: under_way(edge) == _CLIENTS)
    for sock in sockets[1:]:
        sock.close()
    service.until(lambda edge: under_way(edge) == 1)  # who is there still waits
    with service.client() as client:
        name = client.post("/v1/documents?filename=hang", content=content).json()["document_id"]
        assert client.delete(f"/v1/documents/{name}").status_code == 204
    assert sockets[0].recv(65536).startswith(b"HTTP/1.1 200")
    sockets[0].close()


def test_who_waits_for_room_and_hangs_up_is_waited_for_no_more_and_takes_none(service: HttpService):
    taken = service.look(refuse_all)
    sockets = [service.connect() for _ in range(_CLIENTS)]
    for sock in sockets:
        sock.sendall(head("X-Deadline-Ms: 3600000", "Content-Length: 100"))
    service.until(lambda edge: under_way(edge) == _CLIENTS)
    for sock in sockets:
        sock.close()
    service.until(lambda edge: under_way(edge) == 0)
    service.look(lambda _: [permit.ignore() for permit in taken])
    assert service.look(lambda edge: edge.reception.capacity().bound("documents").used) == 0
