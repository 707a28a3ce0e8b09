"""A folder of bytes that cannot be written (a read-only disk) is an outage: 503, nothing lost, and it passes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from http_service import HttpService, fresh, open_edge
from test_http_documents import problem


@contextmanager
def unwritable(folder: Path) -> Iterator[None]:
    """A file stands where the folder was: nobody can make anything in it, not even root."""
    aside = folder.with_name(f"{folder.name}-aside")
    folder.rename(aside)
    folder.touch()
    try:
        yield
    finally:
        folder.unlink()
        aside.rename(folder)


def test_what_was_accepted_waits_out_an_unwritable_folder_and_the_service_lives():
    large = fresh(500_000)
    with HttpService(open_edge) as service, service.client() as client:
        folder = service.look(lambda edge: edge.reception._blobs.folder)
        with unwritable(folder / "incoming"), unwritable(folder / "uploads"):
            accepted = client.post("/v1/documents", content=fresh())  # a small one goes into the log
            assert accepted.status_code == 202
            service.until(lambda edge: not edge.reception.health().ready)
            assert "cannot be used" in client.get("/readyz").json()["problems"][0]
            problem(client.post("/v1/documents", content=large), 503, "store-unavailable")
            begun = client.post("/v1/uploads", headers={"Upload-Complete": "?0"})
            problem(begun, 503, "store-unavailable")
            assert int(begun.headers["retry-after"]) >= 1
            assert client.get("/livez").status_code == 200
        service.until(lambda edge: edge.reception.health().ready)
        service.until(lambda edge: edge.reception.capacity().in_flight == 0)
        assert client.get(accepted.headers["location"]).json()["state"] == "succeeded"
        assert client.post("/v1/documents", content=large).status_code == 202
        assert service.look(lambda edge: edge.reception.capacity().bound("uploads").used) == 0
